"""A cluster's data go into a cluster of another backend and back, whatever interrupts that."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import programs27
import pytest
from clusters import PAIR, PATIENCE, ClusterUnderTest, Roles, wait_until

from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.convert import run
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import lifecycle, state

HOME = Path(__file__).parents[2]
FILL = """
import os, sys, transaction, ZODB
from ZODB.blob import Blob
from ZODB.FileStorage import FileStorage
from persistent.mapping import PersistentMapping
db = ZODB.DB(FileStorage(sys.argv[1], blob_dir=os.path.join(os.path.dirname(sys.argv[1]), 'blobs')))
root = db.open().root()
for number in range(int(sys.argv[2])):
    root[number] = PersistentMapping(text='x' * 200000, file=Blob('%d' % number * 100000))
    transaction.get().note(u'number %d' % number)
    transaction.commit()
    if number == 3:
        del root[number]
        transaction.commit()
        db.undo(db.undoLog(0, 1)[0]['id'])
        transaction.commit()
db.close()
"""
# Everything that a history says, whatever the order of the objects in a transaction is.
HISTORY = """
import hashlib, os, sys
from ZODB.blob import FilesystemHelper, is_blob_record
from ZODB.FileStorage.FileStorage import FileIterator
files = FilesystemHelper(os.path.join(os.path.dirname(sys.argv[1]), 'blobs'))
def content(record):
    if is_blob_record(record.data):
        yield open(files.getBlobFilename(record.oid, record.tid)).read()
    yield record.data or ''
for each in FileIterator(sys.argv[1]):
    print(repr((each.tid, each.user, each.description, each.extension_bytes, sorted(
        (record.oid, [hashlib.sha256(each).hexdigest() for each in content(record)])
        for record in each))))
"""


class Place(ClusterUnderTest):
    """A cluster without the watch, named by its folder; SQLite's nodes have no ports."""

    def write(self) -> None:
        super().write()
        text = self.path.read_text().replace("name test", f"name {self.folder.name}")
        if self.backend == "relstorage-sqlite":
            text = "".join(
                line for line in text.splitlines(keepends=True) if "storage-port" not in line
            )
        self.path.write_text(text)

    def convert_to(self, other: Place) -> str:
        """Convert, which has to succeed; what was shown."""
        done = self.cli("convert", "--to", str(other.path))
        assert (0, "") == (done.returncode, done.stderr), done.stdout
        return done.stdout


def python27(script: str, *arguments: object) -> str:
    python = HOME / "parts/python27/bin/python"
    return programs27.output_of(python, script, *arguments, seconds=PATIENCE)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """A filled pair, an empty SQLite, an empty PostgreSQL, and an empty pair."""
    folder = tmp_path_factory.mktemp("places")
    alone: Roles = {"a": ("primary", None)}
    made = {}
    for name, backend, nodes in (
        ("source", "zrs", PAIR),
        ("back", "zrs", PAIR),
        ("sqlite", "relstorage-sqlite", alone),
        ("postgresql", "relstorage-postgresql", alone),
    ):
        (folder / name).mkdir()
        made[name] = Place(folder / name, HOME, nodes, ("one",), backend=backend)
    file = data_fs(made["source"].cluster.node("a"))
    file.parent.mkdir(parents=True)
    python27(FILL, file, 40)
    with contextlib.ExitStack() as closing:
        for place in made.values():
            closing.callback(place.close)
        yield made


def history(file: Path) -> list[str]:
    return python27(HISTORY, file).splitlines()


def file_of(place: Place) -> Path:
    return data_fs(place.cluster.node("a"))


def copied(number: int, before: int) -> str:
    return f"{number} copied, {before} present before. All were compared with the source."


def test_there_and_back_the_history_is_the_same(places: dict[str, Place]) -> None:
    source, sqlite, back = places["source"], places["sqlite"], places["back"]
    content, all_of_it = file_of(source).read_bytes(), history(file_of(source))
    assert copied(len(all_of_it), 0) in source.convert_to(sqlite)
    assert copied(len(all_of_it), 0) in sqlite.convert_to(back)
    assert all_of_it == history(file_of(back))
    assert content == file_of(source).read_bytes()
    (entry,) = json.loads(back.cli("journal", "--json").stdout)
    assert ("convert", "done", len(all_of_it), "from cluster sqlite (relstorage-sqlite)") == (
        entry["operation"],
        entry["outcome"],
        entry["told"]["copied"],
        entry["plan"]["target"],
    )


def test_a_killed_conversion_into_a_server_goes_on_and_nothing_starts_on_half_of_it(
    places: dict[str, Place],
) -> None:
    source, target = places["source"], places["postgresql"]
    number = len(history(file_of(source)))
    _start_and_end(source, target, signal.SIGKILL)
    refused = target.cli("up")
    assert ExitCode.REFUSED == refused.returncode
    assert f"HINT: bin/zodbrepl -c {source.path} convert --to {target.path}" in refused.stderr
    assert f"The target holds {number} transactions" in source.convert_to(target)
    assert [] == target.processes()
    assert copied(0, number) in target.convert_to(places["sqlite"])


def test_ctrl_c_leaves_nothing_running_and_says_how_to_go_on(places: dict[str, Place]) -> None:
    process = _start_and_end(places["postgresql"], places["back"], signal.SIGINT)
    _out, said = process.communicate(timeout=PATIENCE)
    assert ExitCode.INTERRUPTED == process.returncode, said
    assert "(continues where it stopped)" in said
    assert [] == places["postgresql"].processes() + places["back"].processes()
    places["postgresql"].convert_to(places["back"])


def _start_and_end(source: Place, target: Place, end: signal.Signals) -> subprocess.Popen[str]:
    """Start a conversion, and end its command when the data plane is at work."""
    process = subprocess.Popen(
        [HOME / "bin" / "zodbrepl", "-c", source.path, "convert", "--to", target.path],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    wait_until(
        lambda: bool(_programs(source)) or process.poll() is not None, "the data plane is at work"
    )
    process.send_signal(end)
    if end is signal.SIGKILL:
        process.communicate()
        wait_until(lambda: not _programs(source), "the data plane's program has ended")
    return process


def _programs(source: Place) -> list[int]:
    """Processes of the data plane's program that read this source."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
            if run.MODULE in command and str(source.folder) in command:
                found.append(int(pid))
    return found


def test_a_running_source_and_other_data_are_refused(
    places: dict[str, Place], tmp_path: Path
) -> None:
    source, sqlite = places["source"], places["sqlite"]
    lifecycle.up_storage(source.cluster, source.installation)
    try:
        done = source.cli("convert", "--to", str(sqlite.path))
    finally:
        source.down()
    assert ExitCode.REFUSED == done.returncode
    assert "the source of the conversion is running" in done.stderr
    other = tmp_path / "other.fs"
    python27(FILL, other, 2)
    done = source.cli("convert", "--from", str(other), "--to", str(sqlite.path))
    assert ExitCode.REFUSED == done.returncode
    assert "NOTICE: the target holds other data" in done.stderr
    # What it held before is as complete as it was.
    noted = state.read_converting(sqlite.cluster)
    assert noted is not None
    assert noted.ended is not None


def test_a_dry_run_shows_the_steps_and_changes_nothing(
    places: dict[str, Place], tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    new = Place(tmp_path / "new", HOME, {"a": ("primary", None)}, backend="relstorage-sqlite")
    done = places["source"].cli("convert", "--to", str(new.path), "--dry-run")
    assert 0 == done.returncode, done.stderr
    assert "copy the remaining transactions under the same transaction ids" in done.stdout
    assert not Layout(new.cluster).var.exists()
