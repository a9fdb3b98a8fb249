"""Which backups are too old, and what is left when their removal is interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import backup_retention
from indico_zodbrepl.host.backup_retention import Series, data_fs_series, expired

OLD = ("2026-01-01-00-00-00", "2026-01-02-00-00-00")
NEW = ("2026-02-01-00-00-00", "2026-02-02-00-00-00")
THIRD = "2026-03-01-00-00-00"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two full backups with an incremental one each, and a third full one."""
    for full, incremental in (OLD, NEW):
        for name in (f"{full}.fs", f"{full}.dat", f"{full}.index", f"{incremental}.deltafs"):
            (tmp_path / name).write_text("x")
    for name in (f"{THIRD}.fs", f"{THIRD}.dat", "cluster.json", "control.tgz"):
        (tmp_path / name).write_text("x")
    return tmp_path


class Keeper:
    """The part of a backup driver that removes repozo's files."""

    def series(self, folder: Path) -> list[Series]:
        return data_fs_series(folder)

    def remove_series(self, folder: Path, series: Series) -> None:
        backup_retention.remove_data_fs(folder, series)


@pytest.mark.parametrize(
    ("before", "gone"),
    [
        ("2026-01-31-23-59-59", []),
        ("2026-02-01-00-00-00", [OLD]),
        ("2026-02-28-23-59-59", [OLD]),
        ("2026-03-01-00-00-00", [OLD, NEW]),
        ("2036-01-01-00-00-00", [OLD, NEW]),
    ],
)
def test_a_series_expires_when_the_next_one_is_older_than_the_days_to_keep(
    folder: Path, before: str, gone: list[tuple[str, str]]
) -> None:
    found = expired(data_fs_series(folder), before)
    assert gone == [(each.first, each.last) for each in found]


def test_a_single_series_never_expires(tmp_path: Path) -> None:
    (tmp_path / f"{OLD[0]}.fs").touch()
    assert [] == expired(data_fs_series(tmp_path), "2036-01-01-00-00-00")


def test_a_series_is_removed_as_a_whole_and_other_files_stay(folder: Path) -> None:
    backup_retention.remove(Keeper(), folder, data_fs_series(folder)[:1], f"{THIRD}.fs")
    left = {path.name for path in folder.iterdir()}
    assert not [name for name in left if name.startswith("2026-01")]
    assert {f"{NEW[0]}.fs", f"{NEW[1]}.deltafs", f"{THIRD}.fs", "control.tgz"} <= left


def test_the_newest_series_is_refused(folder: Path) -> None:
    with pytest.raises(OperatorError) as raised:
        backup_retention.remove(Keeper(), folder, data_fs_series(folder), f"{THIRD}.fs")
    assert ExitCode.REFUSED == raised.value.exit_code
    assert 3 == len(data_fs_series(folder))


def test_nothing_is_removed_if_another_full_backup_was_made_since_the_check(folder: Path) -> None:
    wanted = data_fs_series(folder)[:2]
    (folder / "2026-04-01-00-00-00.fs").touch()
    with pytest.raises(OperatorError):
        backup_retention.remove(Keeper(), folder, wanted, f"{THIRD}.fs")
    assert 4 == len(data_fs_series(folder))


def test_the_full_backup_goes_last_so_that_no_incremental_one_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    unlink = Path.unlink

    def noted(path: Path, *, missing_ok: bool = False) -> None:
        removed.append(path.name)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", noted)
    backup_retention.remove(Keeper(), folder, data_fs_series(folder)[:1], f"{THIRD}.fs")
    data = [name for name in removed if not name.endswith((".index", ".blobs"))]
    assert [f"{OLD[1]}.deltafs", f"{OLD[0]}.dat", f"{OLD[0]}.fs"] == data
