"""Unpacking and patching: all of it exactly, or nothing, with nothing left behind."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup.indico import unpack_and_patch
from indico_zodbrepl.setup.patching import read_series

SOURCE = "".join(f"line {number}\n" for number in range(1, 10))
FILES = {
    "indico/core.py": SOURCE,
    "requirements.txt": "--find-links x\nZODB3==3.10.5\n",
    "indico.egg-info/requires.txt": "old\n",
}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    path = tmp_path / "indico-1.2.2.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in FILES.items():
            member = tarfile.TarInfo(f"indico-1.2.2/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def patch(path: Path, before: str, old: str, new: str) -> Path:
    """A patch of indico/core.py that replaces the line before line 6."""
    path.write_text(
        "Why.\n\n--- a/indico/core.py\n+++ b/indico/core.py\n@@ -4,3 +4,3 @@\n"
        f" {before}\n-{old}\n+{new}\n line 6\n"
    )
    return path


@pytest.fixture
def fits(tmp_path: Path) -> Path:
    return patch(tmp_path / "fits.patch", "line 4", "line 5", "LINE 5")


def test_the_tree_is_unpacked_patched_and_made_importable(
    tmp_path: Path, release: Path, fits: Path
) -> None:
    needs = tmp_path / "requirements.patch"
    needs.write_text(
        "--- a/requirements.txt\n+++ b/requirements.txt\n@@ -1,2 +1,2 @@\n"
        " --find-links x\n-ZODB3==3.10.5\n+ZODB\n"
    )
    target = tmp_path / "parts/indico"
    target.parent.mkdir()
    unpack_and_patch(release, [fits, needs], target)
    assert SOURCE.replace("line 5", "LINE 5") == (target / "indico/core.py").read_text()
    assert "ZODB\n" == (target / "indico.egg-info/requires.txt").read_text()
    assert "indico/MaKaC" == str((target / "MaKaC").readlink())
    assert [target] == list(target.parent.iterdir())


@pytest.mark.parametrize(
    ("before", "old"),
    [("line 4", "something else"), ("LINE FOUR", "line 5")],
    ids=["another line", "other context, which fuzz would let pass"],
)
def test_a_patch_that_does_not_fit_leaves_nothing_behind_and_the_old_tree_in_place(
    tmp_path: Path, release: Path, fits: Path, before: str, old: str
) -> None:
    target = tmp_path / "parts/indico"
    target.mkdir(parents=True)
    (target / "old").touch()
    wrong = patch(tmp_path / "wrong.patch", before, old, "x")
    with pytest.raises(OperatorError, match=r"wrong\.patch does not apply"):
        unpack_and_patch(release, [wrong], target)
    assert [target] == list(target.parent.iterdir())
    assert [target / "old"] == list(target.iterdir())
    unpack_and_patch(release, [fits], target)
    assert not (target / "old").exists()


def test_the_tree_is_unpacked_by_the_first_python_311_too(
    tmp_path: Path, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12's has no extraction filters yet."""
    monkeypatch.delattr(tarfile, "data_filter")
    (tmp_path / "parts").mkdir()
    unpack_and_patch(release, [], tmp_path / "parts/indico")
    assert SOURCE == (tmp_path / "parts/indico/indico/core.py").read_text()


def test_a_patch_applied_already_is_refused(tmp_path: Path, release: Path, fits: Path) -> None:
    (tmp_path / "parts").mkdir()
    with pytest.raises(OperatorError, match="does not apply"):
        unpack_and_patch(release, [fits, fits], tmp_path / "parts/indico")
    assert [] == list((tmp_path / "parts").iterdir())


def test_what_a_killed_run_left_does_not_hinder_the_next(
    tmp_path: Path, release: Path, fits: Path
) -> None:
    for name in ("indico.new/indico-1.2.2/half", "indico.old/half"):
        (tmp_path / "parts" / name).mkdir(parents=True)
    unpack_and_patch(release, [fits], tmp_path / "parts/indico")
    assert ["indico"] == [path.name for path in (tmp_path / "parts").iterdir()]


def test_the_series_is_read_in_its_order_without_comments(tmp_path: Path) -> None:
    (tmp_path / "series").write_text("# all\n\n2.patch\n1.patch  # why\n")
    assert [tmp_path / "2.patch", tmp_path / "1.patch"] == read_series(tmp_path)


def test_a_patch_that_the_series_names_must_exist(tmp_path: Path, release: Path) -> None:
    (tmp_path / "parts").mkdir()
    with pytest.raises(OperatorError, match=r"patch gone\.patch is missing"):
        unpack_and_patch(release, [tmp_path / "gone.patch"], tmp_path / "parts/indico")
