"""Data that are lost or damaged come back from a backup, and what is newer is kept."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import commands
import pytest
from admin_page import run_on_page, session_of
from clusters import CLI_SECONDS, PAIR, PATIENCE, ClusterUnderTest, wait_until
from operations import last_entry, succeed
from zeo_client import python27

from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import ExitCode

ALONE: dict[str, tuple[str, str | None]] = {"a": ("primary", None)}

# One object with a blob a transaction, in a tree, under names that begin with a prefix.
COMMIT = """
import sys, transaction, ZODB, ZODB.config
from BTrees.OOBTree import OOBTree
from persistent.mapping import PersistentMapping
from ZODB.blob import Blob
conf, prefix, count = sys.argv[1:]
db = ZODB.DB(ZODB.config.storageFromURL(conf))
root = db.open().root()
if 'tree' not in root:
    root['tree'] = OOBTree()
    transaction.commit()
for number in range(int(count)):
    name = '%s%d' % (prefix, number)
    root['tree'][name] = PersistentMapping(text=2000 * 'x', file=Blob(name))
    transaction.get().note(u'%s%d' % (prefix, number))
    transaction.get().setUser(u'somebody')
    transaction.commit()
db.close()
"""
NAMES = """
import json, sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
print(json.dumps([str(key) for key, value in db.open().root()['tree'].items()
                  if value['text'] and value['file'].open().read() == str(key)]))
db.close()
"""
# Has the database open until its standard input is closed.
HOLD = """
import sys, ZODB.config
storage = ZODB.config.storageFromURL(sys.argv[1])
storage.lastTransaction()
print('open')
sys.stdout.flush()
sys.stdin.read()
"""
# As the command, but kills itself when a step of this kind begins or has ended.
KILLED_AT = """
import os, signal, sys
path, home, folder, action, progress = sys.argv[1:]
from pathlib import Path
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.operations import executor
from indico_zodbrepl.operations.execution import Observer
from indico_zodbrepl.operations.restore import plan_restore
from indico_zodbrepl.operations.restore_facts import gather
class Killer(Observer):
    def step(self, running, index):
        step, record = running.plan.steps[index], running.records[index]
        if (step.action, record.progress) == (action, progress):
            os.kill(os.getpid(), signal.SIGKILL)
cluster, installation = load(Path(path), Path(home)), Installation(Path(home))
facts = gather(cluster, installation, "a", Path(folder), at=None, say=print)
plan = plan_restore(cluster, facts, "a test", Commands.here(cluster))
assert hasattr(plan, "steps"), plan
executor.execute(cluster, installation, plan, Killer())
"""


class Kept(ClusterUnderTest):
    """A cluster with backups, shared by tests that each have a folder for theirs.

    No Indico runs: what happens to it is seen with the other storages' clusters.
    """

    tests = 0
    tails: frozenset[Path] = frozenset()

    def write(self) -> None:
        ports = iter(self.ports)
        lines = [
            "name test",
            f"backend {self.backend}",
            f"var-directory {self.folder}/var",
            f"backup-directory {self.folder}/backups",
        ]
        served = self.backend in ("zrs", "zeo")
        for name, (role, upstream) in self.nodes.items():
            lines += [
                f"<node {name}>",
                "  host 127.0.0.1",
                f"  role {role}",
                *([f"  storage-port {next(ports)}"] if served else []),
                *([f"  replication-port {next(ports)}"] if self.backend == "zrs" else []),
                f"  data-directory {self.folder}/var/node/{name}",
                *([f"  upstream {upstream}"] if upstream else []),
                "</node>",
            ]
        lines += ["<admin>", f"  port {next(ports)}", "</admin>", ""]
        self.path.write_text("\n".join(lines))

    def next_test(self) -> None:
        self.tests += 1
        self.tails = frozenset(Layout(self.cluster).lost_tails.glob("*"))

    @property
    def database(self) -> Path:
        folder = self.cluster.node("a").data_directory
        return (
            folder / "sqlite" / "main.sqlite3"
            if self.backend == "relstorage-sqlite"
            else folder / "Data.fs"
        )

    @property
    def backups(self) -> Path:
        """The folder of this test's backups."""
        return self.folder / f"backups-{self.tests}"

    def backup(self, *arguments: str) -> str:
        return succeed(self, "backup", "--to", str(self.backups), *arguments)

    def restore(self, *arguments: str) -> str:
        return succeed(self, "restore", "a", "--from", str(self.backups), *arguments)

    def refused(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A restore that has to be refused."""
        done = self.cli("restore", "a", "--from", str(self.backups), *arguments)
        assert ExitCode.REFUSED == done.returncode, done.stdout + done.stderr
        return done

    def commit(self, prefix: str, count: int) -> set[str]:
        """What was acknowledged."""
        prefix = f"{prefix}-{self.tests}-"
        python27(self, COMMIT, Layout(self.cluster).zodb_conf, prefix, str(count))
        return {f"{prefix}{number}" for number in range(count)}

    def commit_and_back_up(self, count: int) -> set[str]:
        """All that the backup has."""
        self.commit("kept", count)
        self.backup()
        return self.names()

    def names(self, node: str = "a") -> set[str]:
        layout = Layout(self.cluster)
        return set(
            json.loads(python27(self, NAMES, layout.node_zodb_conf(self.cluster.node(node))))
        )

    def exported(self) -> set[str]:
        """The names of what was exported in this test, by all restores together."""
        lists = [
            json.loads((path / "tail.json").read_text())
            for path in Layout(self.cluster).lost_tails.glob("*")
            if path not in self.tails
        ]
        return {
            each["description"].strip()
            for one in lists
            for each in one["transactions"]
            if each["description"].strip()
        }

    def kill_in_the_middle(self, action: str, progress: str) -> None:
        arguments = [str(self.path), str(self.home), str(self.backups), action, progress]
        done = commands.run_program(KILLED_AT, arguments, self.home, seconds=CLI_SECONDS)
        assert -signal.SIGKILL == done.returncode, done.stdout + done.stderr


@contextlib.contextmanager
def running(
    folder: Path, home: Path, backend: str, nodes: dict[str, tuple[str, str | None]]
) -> Iterator[Kept]:
    with contextlib.closing(Kept(folder, home, nodes, backend=backend)) as made:
        made.start()
        yield made


# Without a server the data file is the same.
FILESTORAGE = pytest.param("filestorage", marks=pytest.mark.exhaustive)
REPEATED = pytest.param("relstorage-sqlite", marks=pytest.mark.exhaustive)


@pytest.fixture(scope="module", params=["zeo", FILESTORAGE, "relstorage-sqlite"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, home: Path
) -> Iterator[Kept]:
    with running(tmp_path_factory.mktemp("cluster"), home, request.param, ALONE) as made:
        yield made


@pytest.fixture
def alone(shared: Kept) -> Kept:
    """One of the storages with one copy."""
    shared.next_test()
    return shared


@pytest.fixture
def pair(tmp_path: Path, home: Path) -> Iterator[Kept]:
    with running(tmp_path, home, "zrs", PAIR) as made:
        yield made


ZEO = pytest.mark.parametrize("shared", ["zeo"], indirect=True)
# What does not depend on the format of the data and the backups.
in_common = pytest.mark.parametrize("shared", ["zeo", FILESTORAGE, REPEATED], indirect=True)


def test_what_is_newer_than_the_backup_is_exported_and_all_is_accounted_for(alone: Kept) -> None:
    before = alone.commit_and_back_up(5)
    after = alone.commit("newer", 4)
    told = alone.restore("--dry-run")
    assert "has 4 transactions that the backup lacks" in told
    assert all(name in told for name in after)
    assert before | after == alone.names()
    assert "Lost from the cluster: 4 transactions." in alone.restore("--reason", "a test")
    assert before == alone.names()
    assert after == alone.exported()
    assert 4 == last_entry(alone).figures["lost_transactions"]


@ZEO
def test_operators_back_up_and_preview_a_restore_on_the_page(alone: Kept) -> None:
    alone.up()  # with the page
    session = session_of(alone, "operator")
    url = f"{alone.cluster.admin.base_url}data/backups"
    before = alone.commit("kept", 2)
    made = run_on_page(session, url, "/data/backups", reason="before the upgrade")
    assert "before the upgrade" in made.get_text()
    assert "olga (admin page)" in session.get(url, timeout=PATIENCE).text
    after = alone.commit("newer", 3)
    everything = alone.names()
    told = run_on_page(session, url, "/data/backups/preview", **{"restore-node": "a"})
    text = " ".join(told.get_text().split())
    assert "has 3 transactions that the backup lacks" in text, text
    assert all(name in text for name in after)
    assert not any(name in text for name in before)
    assert everything == alone.names()


@in_common
def test_what_a_restore_exported_can_be_made_again(alone: Kept) -> None:
    before = alone.commit_and_back_up(3)
    after = alone.commit("newer", 3)
    alone.restore()
    folder = str(last_entry(alone).figures["exported_to"])
    succeed(alone, "recover", folder)
    succeed(alone, "recover", folder, "--all")
    assert before | after == alone.names()


def test_data_that_are_gone_come_back(alone: Kept) -> None:
    before = alone.commit_and_back_up(5)
    if alone.backend == "zeo":
        alone.die("a")
    alone.database.unlink()
    assert "has no data" in alone.restore()
    assert before == alone.names()
    assert before | alone.commit("later", 1) == alone.names()


@dataclasses.dataclass
class Harm:
    """Bytes of a file are overwritten, more than an object has, or cut off its end."""

    at: int | None = None
    cut: int = 0

    def do(self, path: Path) -> None:
        with path.open("r+b") as opened:
            if self.cut:
                opened.truncate(path.stat().st_size - self.cut)
            if self.at is not None:
                opened.seek(self.at)
                opened.write(3000 * b"\xff")


@ZEO
def test_of_damaged_data_what_can_be_read_is_exported(alone: Kept) -> None:
    before = alone.commit_and_back_up(5)
    size = alone.database.stat().st_size
    after = alone.commit("newer", 6)
    alone.die("a")
    Harm(at=size + (alone.database.stat().st_size - size) // 2).do(alone.database)
    assert "its data are damaged" in alone.restore("--dry-run")
    alone.restore()
    assert before == alone.names()
    lost = after - alone.exported()
    assert len(lost) in (1, 2)  # those that were overwritten
    figures = last_entry(alone).figures
    assert "lost_transactions" not in figures
    assert len(after) - len(lost) == figures["exported"]
    assert (Path(str(figures["kept_in"])) / "Data.fs").stat().st_size > size


@ZEO
def test_of_data_that_were_cut_what_is_left_is_exported(alone: Kept) -> None:
    before = alone.commit_and_back_up(5)
    after = alone.commit("newer", 3)
    alone.die("a")
    Harm(cut=100).do(alone.database)
    alone.restore()
    assert before == alone.names()
    (lost,) = after - alone.exported()
    assert lost.endswith("-2")


# While the data are exchanged; `make test-all` tries the others too.
MOMENT = ("restore-swap", "begun")
OTHERS_WITH_UNDO = [
    pytest.param(action, progress, marks=pytest.mark.exhaustive)
    for action, progress in (
        ("restore-stage", "begun"),
        ("restore-stage", "done"),
        ("fence", "done"),
        ("restore-export", "begun"),
        ("restore-export", "done"),
    )
]
OTHERS = [
    *OTHERS_WITH_UNDO,
    pytest.param("restore-swap", "done", marks=pytest.mark.exhaustive),
    pytest.param("start", "begun", marks=pytest.mark.exhaustive),
    pytest.param("restore-see", "begun", marks=pytest.mark.exhaustive),
]


@ZEO
@pytest.mark.parametrize(("action", "progress"), [MOMENT, *OTHERS])
def test_a_restore_that_was_killed_goes_on(alone: Kept, action: str, progress: str) -> None:
    before = alone.commit_and_back_up(2)
    after = alone.commit("newer", 2)
    alone.kill_in_the_middle(action, progress)
    assert "was interrupted" in alone.refused().stderr
    succeed(alone, "resume")
    assert before == alone.names()
    assert after == alone.exported()


@ZEO
@pytest.mark.parametrize(("action", "progress"), [MOMENT, *OTHERS_WITH_UNDO])
def test_a_restore_that_was_killed_can_be_undone(alone: Kept, action: str, progress: str) -> None:
    everything = alone.commit_and_back_up(2) | alone.commit("newer", 2)
    alone.kill_in_the_middle(action, progress)
    succeed(alone, "resume", "--undo")
    wait_until(lambda: alone.program("a") == "RUNNING", "the server runs again")
    assert everything == alone.names()
    assert not (alone.cluster.node("a").data_directory / "restore").exists()


@pytest.mark.parametrize("shared", [FILESTORAGE, "relstorage-sqlite"], indirect=True)
def test_who_writes_to_the_data_is_not_overwritten(alone: Kept) -> None:
    everything = alone.commit_and_back_up(2)
    holder = subprocess.Popen(
        [alone.installation.python27, "-c", HOLD, Layout(alone.cluster).zodb_conf],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert "open\n" == holder.stdout.readline()
        assert str(holder.pid) in alone.refused().stdout
    finally:
        holder.communicate("")
    assert everything == alone.names()


@in_common
def test_without_supervisord_the_data_are_exchanged_and_nothing_is_started(alone: Kept) -> None:
    before = alone.commit_and_back_up(2)
    alone.commit("newer", 1)
    alone.down()
    assert "next, when it is done" in alone.restore()
    assert [] == alone.processes()
    alone.start()
    assert before == alone.names()


def test_a_damaged_backup_is_not_restored(alone: Kept) -> None:
    everything = alone.commit_and_back_up(2)
    Harm(at=100).do(max(alone.backups.glob("**/*"), key=lambda path: path.stat().st_size))
    assert "is damaged" in alone.refused().stderr
    assert everything == alone.names()


@in_common
def test_an_older_backup_is_restored_by_its_time(alone: Kept) -> None:
    before = alone.commit_and_back_up(2)
    date = re.findall(r"\d{4}(?:-\d\d){5}", " ".join(map(str, alone.backups.iterdir())))[0]
    at = f"{date[:10]}T{date[11:].replace('-', ':')}Z"
    alone.commit("newer", 2)
    alone.backup()
    alone.restore("--at", at)
    assert before == alone.names()
    assert "there is no backup" in alone.refused("--at", "2001-01-01T00:00").stderr


@in_common
def test_backups_are_for_their_owner_and_in_the_journal(alone: Kept) -> None:
    alone.commit("kept", 2)
    folder = alone.cluster.backup_directory
    assert folder is not None
    succeed(alone, "backup", "--full", "--reason", "each night")  # others may have begun one
    assert 0o700 == folder.stat().st_mode & 0o777
    assert [0] == sorted({path.stat().st_mode & 0o077 for path in folder.rglob("*")})
    entry = last_entry(alone)
    assert ("backup", "a", "each night", "full") == (
        entry.plan.operation,
        entry.plan.target,
        entry.plan.reason,
        entry.figures["kind"],
    )
    assert "nothing new since the last backup" in succeed(alone, "backup")


@ZEO
def test_a_folder_with_other_things_is_not_used(alone: Kept, tmp_path: Path) -> None:
    alone.commit_and_back_up(1)
    (tmp_path / "thing").touch()
    assert ExitCode.REFUSED == alone.cli("backup", "--to", str(tmp_path)).returncode
    mark = alone.backups / "cluster.json"
    mark.write_text(mark.read_text().replace('"test"', '"production"'))
    assert "production" in alone.refused().stderr
    assert ExitCode.REFUSED == alone.cli("backup", "--to", str(alone.backups)).returncode


# --- where nodes replicate


def wait_until_b_has_everything(pair: Kept) -> None:
    def size(node: str) -> int:
        return data_fs(pair.cluster.node(node)).stat().st_size

    wait_until(lambda: size("b") == size("a"), "b has everything")


def test_a_secondary_is_backed_up_so_that_the_primary_goes_on_undisturbed(pair: Kept) -> None:
    pair.commit("kept", 2)
    wait_until_b_has_everything(pair)
    assert "of node b (it follows primary a" in pair.backup()
    pair.commit("more", 1)
    assert "of node a" in pair.backup("a")
    assert [".deltafs", ".fs"] == sorted(
        path.suffix for path in pair.backups.iterdir() if path.suffix.endswith("fs")
    )


def test_while_another_node_has_the_data_the_better_way_is_reported(pair: Kept) -> None:
    pair.commit("kept", 2)
    wait_until_b_has_everything(pair)
    pair.backup("a")
    pair.die("a")
    data_fs(pair.cluster.node("a")).unlink()
    assert "failover b --reason" in pair.refused().stderr
    succeed(pair, "failover", "b", "--reason", "a is lost")
    assert "clone a" in pair.refused().stderr


def test_when_both_nodes_are_lost_one_is_restored_and_the_other_gets_a_copy(pair: Kept) -> None:
    before = pair.commit("kept", 3)
    pair.backup("a")
    after = pair.commit("newer", 2)
    pair.die("b")
    pair.die("a")
    data_fs(pair.cluster.node("b")).unlink()
    Harm(at=None, cut=30).do(data_fs(pair.cluster.node("a")))
    assert "clone b" in pair.restore("--reason", "both lost")
    assert before == pair.names()
    (lost,) = after - pair.exported()
    assert lost.endswith("-1")
    assert 2 == last_entry(pair).figures["epoch"]
    succeed(pair, "clone", "b")
    assert before == pair.names("b")
    assert before | pair.commit("later", 1) == pair.names()
