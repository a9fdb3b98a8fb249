"""A cluster with a real Indico of a given size, whose operations are timed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import commands
from clients import Writer
from clusters import PAIR, settled, wait_until
from kinds import ALONE, ClusterOfKind, Kind

from indico_zodbrepl.backends import named
from indico_zodbrepl.bench import machine
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.host import supervisor
from indico_zodbrepl.host.indico_programs import Indico27
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations import journal

LONGEST = 4 * 3600.0  # seconds of a command
PATIENCE = 3600.0  # seconds until a node has caught up
LOOK_SECONDS = 10.0
AROUND = 10.0  # seconds of writing before and after what is timed
BATCH = "50"  # events in a transaction, as large as the largest of users; thousands without it
IN_APP = (
    *("--test", "testReadConferenceRoomsThroughput", "--test", "testWriteConferencesThroughput"),
    *("--caches", "cold", "--caches", "hot"),
)
PROGRAMS = Path(__file__).resolve().parents[1] / "python27"
FILES = ("zeo", "zrs")
STORAGES = {
    "zrs": PAIR,
    "zeo": ALONE,
    "relstorage-postgresql": PAIR,
    "relstorage-sqlite": ALONE,
}


class SizedCluster(ClusterOfKind):
    """A primary a, a secondary b where there can be one, and one Indico.

    Args:
        folder: does not exist yet; other users must be able to reach it.
        home: the installation.
        storage: of STORAGES.

    Attributes:
        has_file: True if the database is a data file of ZODB.
        has_server: True if the database has a server, which clients ask.
        has_secondary: True if there is b.
    """

    def __init__(self, folder: Path, home: Path, storage: str) -> None:
        folder.mkdir(mode=0o755)
        super().__init__(folder, home, Kind(storage, STORAGES[storage]))
        self.indico = ("one",)
        self.write()
        self.has_file = storage in FILES
        self.has_server = storage != "relstorage-sqlite"
        self.has_secondary = len(self.nodes) > 1
        self._numbers = itertools.count(1)

    def timed(self, *arguments: str) -> float:
        """Run a command, which has to succeed; return its seconds."""
        began = time.monotonic()
        done = commands.run(["-c", str(self.path), *arguments], self.home, seconds=LONGEST)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return time.monotonic() - began

    def steps(self) -> dict[str, float]:
        """The seconds of each step of the last operation, by its action and subject."""
        entries, _notices = journal.read(self.cluster)
        last = entries[-1]
        return {
            f"{step.action} {step.subject}": round(record.ended - record.began, 3)
            for step, record in zip(last.plan.steps, last.records, strict=True)
            if record.began is not None and record.ended is not None
        }

    def can(self, operation: str) -> bool:
        """Return True if the storage has an operation of ``backends.OPERATIONS``."""
        return operation not in named(self.kind.backend).limits

    def load(self, gib: float) -> float:
        """Load conferences in bulk; return the seconds.  Ends down.

        A data file is loaded while no server has it open, and followers get it later.
        """
        self.start()
        self.begin_indico()
        indico = Indico27(self.cluster, self.installation)
        conf = indico.environment["INDICO_CONF"]
        if self.has_file:
            self.down()
            conf = str(self._direct(Path(conf)))
        began = time.monotonic()
        size = ("--target-size", f"{gib * 1024:.0f}MiB", "--batch", BATCH)
        subprocess.run(
            [self.installation.bulkload, *size, "--contributions", "0", "--seed", "1"],
            check=True,
            timeout=LONGEST,
            env={**indico.environment, "INDICO_CONF": conf},
        )
        loaded = time.monotonic() - began
        if not self.has_file:
            self.down()
        return loaded

    def _direct(self, indico_conf: Path) -> Path:
        """Return an indico.conf with which a process opens the primary's file itself."""
        storage, conf = self.folder / "direct.zodb.conf", self.folder / "direct.indico.conf"
        data = data_fs(self.cluster.node("a"))
        storage.write_text(f"<filestorage>\n  path {data}\n</filestorage>\n")
        conf.write_text(
            "\n".join(
                f"DBStorageURL = '{storage}'" if line.startswith("DBStorageURL") else line
                for line in indico_conf.read_text().splitlines()
            )
            + "\n"
        )
        return conf

    def size(self) -> int:
        """Return the bytes of the primary's database, which runs."""
        if self.has_file:
            return data_fs(self.cluster.node("a")).stat().st_size
        found = settled(
            lambda: take_snapshot(self.cluster, LOOK_SECONDS).node("a").size, bool, True
        )
        return found or 0

    def catch_up(self, node: str) -> float:
        """Wait until a follower has everything; return the seconds."""
        began = time.monotonic()

        def has_everything() -> bool:
            found = take_snapshot(self.cluster, LOOK_SECONDS).node(node)
            return found.connected is True and found.lag_transactions == 0

        wait_until(has_everything, f"{node} has caught up", PATIENCE)
        return time.monotonic() - began

    def diverge(self, count: int) -> float:
        """Let the primary commit what the secondary never gets, and die.  Ends with b alone.

        Returns the seconds in which b starts until it answers; PostgreSQL reads its log first.
        """
        self.timed("node", "stop", "b")
        self.commit("lost", count)
        self.die("a")
        began = time.monotonic()
        self.timed("node", "start", "b")

        def answers() -> bool:
            return take_snapshot(self.cluster, LOOK_SECONDS).node("b").reachable

        wait_until(answers, "b answers", PATIENCE)
        return time.monotonic() - began

    def lose(self, node: str) -> None:
        """Stop a node and remove its data."""
        self.timed("node", "stop", node)
        shutil.rmtree(self.cluster.node(node).data_directory)

    def commit(self, name: str, count: int) -> None:
        """Commit some objects of 1 KB, one after the other."""
        subprocess.run(
            [
                self.installation.python27,
                PROGRAMS / "few_commits.py",
                Layout(self.cluster).zodb_conf,
                name,
                str(count),
            ],
            check=True,
            timeout=LONGEST,
            env=self.installation.environment27(),
        )

    @contextlib.contextmanager
    def written_to(self) -> Iterator[list[float]]:
        """Write all the time; the list has the moment of each commit at the end."""
        began, moments = time.monotonic(), list[float]()
        name = f"writer-{next(self._numbers)}"
        log = self.folder / f"{name}.log"
        writer = Writer(self, Layout(self.cluster).zodb_conf, log, name, 2000, pause="0.01")
        try:
            writer.wait_for_successes(15, began)
            time.sleep(AROUND)
            yield moments
            time.sleep(AROUND)
        finally:
            writer.end()
            moments += sorted(each.ended for each in writer.attempts() if each.acknowledged)

    def in_app(self) -> dict[str, float]:
        """The rates of Indico's own tests, a second, by test and caches; medians of the rounds."""
        done = commands.run(
            ["-c", str(self.path), "bench", "in-app", "--json", *IN_APP],
            self.home,
            seconds=LONGEST,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return {
            f"{each['test']} {each['parameters']['caches']}": each["metrics"]["rate"]["median"]
            for each in json.loads(done.stdout)["summary"]
        }

    def peaks(self) -> dict[str, int]:
        """The most memory that each server has had since it started, in bytes."""
        found = {}
        for program in (f"node-{name}" for name in self.nodes):
            status = Path(f"/proc/{self.pid_of(program)}/status").read_text()
            line = next(each for each in status.splitlines() if each.startswith("VmHWM"))
            found[program] = int(line.split()[1]) * 1024
        return found

    def memory(self) -> dict[str, int]:
        """The bytes of memory of each program that runs, with its children."""
        there = machine.present()
        return {
            name: sum(map(proportional, machine.family([state.pid], there)))
            for name, state in supervisor.program_states(self.cluster, LOOK_SECONDS).items()
            if state.pid is not None
        }

    def disk(self) -> dict[str, int]:
        """The bytes of each node's folder."""
        return {
            node.name: sum(
                path.stat().st_size for path in node.data_directory.rglob("*") if path.is_file()
            )
            for node in self.cluster.nodes
        }

    def healthy(self) -> None:
        settled(
            lambda: take_snapshot(self.cluster, LOOK_SECONDS), lambda found: found.state.works, True
        )


def proportional(pid: int) -> int:
    """Return the memory of a process in bytes, its part of what it shares; 0 if it has ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next(
        (int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0
    )


def drop_caches() -> bool:
    """Have the kernel forget what it has read; return False if that is not allowed."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


def disk_rate(folder: Path, size: int = 1 << 30) -> tuple[float, float]:
    """The bytes a second that a disk writes and reads in sequence."""
    path, block = folder / "rate", os.urandom(1 << 20)
    began = time.monotonic()
    with path.open("wb", 0) as target:
        for _ in range(size >> 20):
            target.write(block)
        os.fsync(target.fileno())
    written = time.monotonic() - began
    drop_caches()
    began = time.monotonic()
    with path.open("rb", 0) as source:
        while source.read(1 << 20):
            pass
    read = time.monotonic() - began
    path.unlink()
    return size / written, size / read
