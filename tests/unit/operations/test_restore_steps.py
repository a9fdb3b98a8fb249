"""How restored data take the place of the old ones: at any moment all of both are there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.backup import keeper_of
from indico_zodbrepl.operations.model import Context, Figures, Plan
from indico_zodbrepl.operations.restore_steps import Stage, Swap

HOME = Path(__file__).parents[3]
OLD = {"Data.fs": "old", "Data.fs.index": "old", "Data.fs.old": "older", "lineage.json": "old"}
NEW = {"Data.fs": "new", "Data.fs.index": "new"}


class Disk:
    """A node's data directory with old data, and a database made of a backup."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.node = cluster.nodes[0]
        self.data = self.node.data_directory
        self.kept = cluster.var_directory / "kept"
        for folder, files in (
            (self.data, {**OLD, "state.json": "state"}),
            (self.data / "restore", NEW),
        ):
            folder.mkdir(parents=True)
            for name, text in files.items():
                (folder / name).write_text(text)
        self.installation = Installation(HOME)
        self.fingerprint = keeper_of(cluster, self.installation).fingerprint(self.node)
        self.step = Swap(
            self.node.name, {"aside": str(self.kept)}, title="", seconds=10.0, after_no_return=True
        )

    @property
    def context(self) -> Context:
        plan = Plan("restore", self.node.name, "", "", 0, (self.step,), None, ())
        results: Mapping[tuple[str, str], Figures] = {
            ("restore-export", self.node.name): {"fingerprint": self.fingerprint}
        }
        return Context(self.cluster, self.installation, plan, results, lambda _text: None, 0.0)

    def swap(self) -> Figures:
        return self.step.do(self.context)

    def files(self, folder: Path) -> dict[str, str]:
        return {
            str(path.relative_to(folder)): path.read_text()
            for path in folder.rglob("*")
            if path.is_file() and path.name != "Data.fs.lock"
        }


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster-zeo.conf").read_text())
    return Disk(load(path, tmp_path))


def is_done(disk: Disk) -> None:
    assert {**NEW, "state.json": "state"} == disk.files(disk.data)
    assert disk.files(disk.kept) == OLD


def test_the_old_data_are_kept_whole(disk: Disk) -> None:
    assert {"kept_in": str(disk.kept)} == disk.swap()
    is_done(disk)
    assert {"kept_in": str(disk.kept)} == disk.step.check(disk.context)


@pytest.mark.parametrize("moment", range(1, 7))
def test_a_swap_that_was_cut_short_is_finished(
    disk: Disk, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    renames = 0
    rename = Path.rename

    def cut_short(path: Path, target: Path) -> Path:
        nonlocal renames
        renames += 1
        if renames == moment:
            raise OSError(5, "the process is killed here", str(path))
        return rename(path, target)

    assert disk.step.is_untouched(disk.context)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", cut_short)
        with pytest.raises(OperatorError):
            disk.swap()
    everything = [*disk.files(disk.data).values(), *disk.files(disk.kept).values()]
    assert sorted([*OLD.values(), *NEW.values(), "state"]) == sorted(everything)
    assert not disk.step.is_untouched(disk.context)
    assert disk.step.check(disk.context) is None
    disk.swap()
    is_done(disk)


def test_data_that_changed_since_they_were_exported_are_not_replaced(disk: Disk) -> None:
    before = disk.files(disk.data)
    (disk.data / "Data.fs").write_text("somebody wrote")
    with pytest.raises(OperatorError):
        disk.swap()
    assert {**before, "Data.fs": "somebody wrote"} == disk.files(disk.data)
    assert disk.step.is_untouched(disk.context)


def test_a_restored_database_that_is_gone_is_reported(disk: Disk) -> None:
    for path in (disk.data / "restore").iterdir():
        path.unlink()
    (disk.data / "Data.fs").unlink()
    with pytest.raises(OperatorError) as raised:
        disk.swap()
    assert "restore" in raised.value.hint


def test_what_was_made_of_the_backup_can_be_removed_again(disk: Disk) -> None:
    step = Stage(disk.node.name, {}, title="", seconds=10.0, after_no_return=False)
    step.undo(disk.context)
    assert {**OLD, "state.json": "state"} == disk.files(disk.data)
