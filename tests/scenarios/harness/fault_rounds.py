"""Rounds of random faults on one cluster after the other, and what became of each acknowledged key.

A round: a fault, then an operator who follows the tool's own advice until the cluster is healthy,
then the account. Each node's data file is read by itself, once all have caught up.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import random
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from clients import Reader
from clusters import CHAIN, PAIR, Roles
from disks import SmallDisk, small_disk
from faults import FAULTS, Fault
from hosts import Hosts
from ledger import Account, Record, account
from on_call import Look, OnCall, Typed
from prefixes import Prefixes, histories, judge
from world import World

STAR: Roles = {**PAIR, "c": ("secondary", "a")}
SMALL = "c"  # the node with the small disk
ROUNDS_OF_A_CLUSTER = 9
RECORD_BYTES = 200
WRITERS = 2
SLOW_READERS, WITHIN = 2, "0.4"  # seconds of a read, so that a change of primary falls into one
SUCCESSES = 5  # of each client before a fault and after it
OPERATOR_SECONDS = 240
CATCH_UP_SECONDS = 60
LOOKS = 3  # times that the operator is called again, as a node lags though status is healthy


@dataclasses.dataclass
class Round:
    """What came of a round.

    Attributes:
        cluster: the number of its cluster, and its shape.
        problems: what must not be, one line each; empty if all went well.
        missing, exported, declared, unaccounted: of the account, without those of earlier rounds.
        failures: the number of reads that ended in each exception.
        prefixes: of all reads since the last account; none of a cluster that was not brought back.
        status: text of ``status`` where the operator gave up; empty if he did not.
    """

    number: int
    fault: str
    cluster: str
    told: str = ""
    seconds: float = 0.0
    acknowledged: int = 0
    missing: frozenset[Record] = frozenset()
    exported: frozenset[Record] = frozenset()
    declared: frozenset[Record] = frozenset()
    unaccounted: frozenset[Record] = frozenset()
    phantom: frozenset[Record] = frozenset()
    torn: int = 0
    failures: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    prefixes: Prefixes = dataclasses.field(default_factory=Prefixes)
    typed: list[Typed] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    status: str = ""

    def refused(self) -> list[tuple[Typed, Typed | None]]:
        """The commands that failed, each with the next one that worked."""
        return [
            (each, next((later for later in self.typed[place:] if later.code == 0), None))
            for place, each in enumerate(self.typed)
            if each.code != 0
        ]


def plan(seed: int) -> Iterator[tuple[int, type[Fault]]]:
    """The numbers of rounds and their faults: all kinds in a random order, then again."""
    rng = random.Random(f"{seed} order")  # noqa: S311 - a round has to be repeatable
    numbers = itertools.count(1)
    while True:
        for kind in rng.sample(FAULTS, len(FAULTS)):
            yield next(numbers), kind


class HostsWithDisk(Hosts):
    """A cluster one of whose nodes has a disk of its own."""

    def write(self) -> None:
        super().write()
        text = self.path.read_text()
        self.path.write_text(
            text.replace(f"{self.folder}/var/node/{SMALL}", f"{self.folder}/disk/{SMALL}")
        )


class Site:
    """One cluster with its clients, for some rounds; ``close`` ends it.

    Args:
        folder: an empty folder.
        home: the installation.
        number, seed: decide on its shape.
    """

    def __init__(self, folder: Path, home: Path, seed: int, number: int) -> None:
        rng = random.Random(f"{seed} cluster {number}")  # noqa: S311
        self.chain = rng.random() < 0.3
        self.name = f"{number} {'chain' if self.chain else 'star'}"
        self.world = World(folder, home, "random faults", self.name)
        self.rounds = 0
        self._known: frozenset[Record] = frozenset()
        self._acknowledged = 0
        self._judged_until = 0.0
        try:
            self.disk = self._make_cluster()
            self.cached = self._start_clients()
        except BaseException:
            self.close()
            raise

    def _make_cluster(self) -> SmallDisk | None:
        folder = self.world.folder / "cluster"
        disk = small_disk(SMALL, folder / "disk")
        if disk is not None:
            self.world.keep_until_closed(disk.close)
        self.world.make_cluster(CHAIN if self.chain else STAR, kind=HostsWithDisk).up()
        return disk

    def _start_clients(self) -> Reader:
        self.world.start_clients(WRITERS, 1, RECORD_BYTES)
        for number in range(1, SLOW_READERS + 1):
            self.world.start_reader(f"slow-reader-{number}", within=WITHIN)
        cached = self.world.start_cached_reader("cached-reader")
        self.world.wait_for_clients(time.monotonic(), 1)
        return cached

    def close(self) -> None:
        self.world.close()

    def run(
        self, number: int, kind: type[Fault], seed: int, say: Callable[[str], None]
    ) -> Round | None:
        """One round; None if the fault does not apply. A problem ends it, not the program."""
        fault = kind(self.world, random.Random(f"{seed} round {number}"), self.disk)  # noqa: S311
        if not fault.applies():
            return None
        self.rounds += 1
        found = Round(number, kind.__name__, self.name)
        began = time.monotonic()
        try:
            self._run(found, fault, say)
        except AssertionError as error:
            where = "".join(traceback.format_tb(error.__traceback__)[-2:])
            found.problems.append(str(error).partition("\nassert")[0] or where)
        found.seconds = time.monotonic() - began
        return found

    def _run(self, found: Round, fault: Fault, say: Callable[[str], None]) -> None:
        world, began = self.world, time.monotonic()
        world.wait_for_clients(began, SUCCESSES)
        self.cached.kill()
        world.readers.remove(self.cached)
        try:
            fault.do()
        finally:
            found.told = fault.told
            say(f"round {found.number}: {found.fault} {fault.told}")
        operator = OnCall(world.cluster, say, failover_first=fault.failover_first)
        found.typed = operator.typed
        healthy_since = self._operate(found, fault, operator)
        if found.problems:
            self._account_of_the_rest(found)
            return
        self._restart_cached_reader()
        settled = max(
            (each.ended for each in operator.typed if _is(each, "failover")), default=healthy_since
        )
        self._account(found, fault, began, settled)

    def _operate(self, found: Round, fault: Fault, operator: OnCall) -> float:
        """Let the operator act, and pause the writers when all is well; when it was."""
        world = self.world
        time.sleep(1)
        if fault.heals_late and not operator.restore(lambda look: look.writable, OPERATOR_SECONDS):
            self._given_up(found, operator, "writable")
        fault.heal()
        for attempt in range(1, LOOKS + 1):
            if not operator.restore(self._is_well, OPERATOR_SECONDS):
                self._given_up(found, operator, "healthy")
                return 0.0
            healthy = time.monotonic()
            world.wait_for_clients(healthy, SUCCESSES)
            world.pause_writers()
            try:
                world.wait_until_caught_up(CATCH_UP_SECONDS)
            except AssertionError as error:
                if attempt == LOOKS:
                    raise AssertionError(f"healthy by its own words, but {error}") from error
                world.go_on_writing()
            else:
                break
        return healthy

    def _given_up(self, found: Round, operator: OnCall, goal: str) -> None:
        look = operator.look()
        found.status += look.text
        found.problems.append(f"not {goal} by its own advice: {look.sentence}")

    def _is_well(self, look: Look) -> bool:
        nodes = look.values.get("nodes", [])
        return look.healthy and len(nodes) == 3 and all(node["mark"] == "*" for node in nodes)

    def _restart_cached_reader(self) -> None:
        """It has the same cache on disk as before the fault."""
        began = time.monotonic()
        self.cached = self.world.start_cached_reader("cached-reader")
        self.cached.wait_for_successes(SUCCESSES, began)

    def _account(self, found: Round, fault: Fault, began: float, settled: float) -> None:
        world = self.world
        held = world.held_in_files()
        everywhere = frozenset.intersection(*map(frozenset, held.values()))
        closed: Account = account(
            (each for writer in world.writers for each in writer.attempts()),
            (each for reader in world.readers for each in reader.sights() if each.began >= began),
            everywhere,
            world.exported(),
            settled=settled,
            losses=world.declared_losses(),
        )
        found.acknowledged = closed.acknowledged - self._acknowledged
        found.missing = closed.missing - self._known
        found.exported = closed.exported - self._known
        found.declared = closed.told - self._known
        found.unaccounted = closed.unaccounted - self._known
        found.phantom = closed.phantom
        found.torn = sum(len(reader.torn(began)) for reader in world.readers)
        found.failures.update(name for reader in world.readers for name in reader.failures(began))
        self._acknowledged, self._known = closed.acknowledged, self._known | closed.missing
        for node, records in held.items():
            if extra := records.keys() - everywhere:
                found.problems.append(f"{len(extra)} records are in {node}, but not in each node")
        self._judge_reads(found, held[world.primary()])
        if found.unaccounted:
            found.problems.append(f"unaccounted: {_some(found.unaccounted)}")
        if found.missing and fault.lossless:
            found.problems.append(
                f"{len(found.missing)} acknowledged were removed though whole copies existed: "
                f"{_some(found.missing)}"
            )
        if found.phantom:
            found.problems.append(f"phantom reads: {_some(found.phantom)}")
        if found.torn:
            found.problems.append(f"{found.torn} reads of torn pairs")
        if both := world.sampler.double_primaries():
            found.problems.append(f"two primaries took writes at once: {both[0]}")
        world.go_on_writing()

    def _judge_reads(self, found: Round, present: Mapping[Record, str]) -> None:
        """Compare what readers saw since the last account with the histories of the cluster."""
        world, now = self.world, time.monotonic()
        sights = [
            sight
            for reader in world.readers
            for sight in reader.sights()
            if self._judged_until < sight.ended <= now
        ]
        attempts = [each for writer in world.writers for each in writer.attempts()]
        those = histories(present, world.exports(), world.declared_losses(), attempts, sights)
        found.prefixes = judge(sights, those)
        self._judged_until = now
        if bad := found.prefixes.violations:
            found.problems.append(f"{len(bad)} reads of no prefix of a history, such as: {bad[0]}")

    def _account_of_the_rest(self, found: Round) -> None:
        """Of a cluster that could not be brought back: what no data file has any more."""
        world = self.world
        attempts = [each for writer in world.writers for each in writer.attempts()]
        held = world.held_in_files(tolerant=True)
        closed = account(
            attempts,
            [],
            frozenset().union(*held.values()),
            world.exported(),
            settled=0.0,
            losses=world.declared_losses(),
        )
        found.acknowledged = closed.acknowledged - self._acknowledged
        found.missing = closed.missing - self._known
        found.exported = closed.exported - self._known
        found.declared = closed.told - self._known
        found.unaccounted = closed.unaccounted - self._known
        if found.unaccounted:
            found.problems.append(f"in no data file any more: {_some(found.unaccounted)}")

    def keep(self, folder: Path) -> None:
        """Copy what tells how a round went: everything but databases."""
        shutil.copytree(
            self.world.folder,
            folder,
            symlinks=True,
            ignore_dangling_symlinks=True,
            ignore=_not_evidence,
            dirs_exist_ok=True,
        )


def is_old(site: Site) -> bool:
    """Return True if a cluster has had its rounds."""
    return site.rounds >= ROUNDS_OF_A_CLUSTER


def _not_evidence(folder: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if name.startswith(("Data.fs", "home"))
        or name.endswith((".zec", ".fs"))
        or not ((path := Path(folder, name)).is_file() or path.is_dir())
    }


def _is(typed: Typed, operation: str) -> bool:
    return typed.code == 0 and f" {operation}" in typed.command


def _some(found: frozenset[Record]) -> str:
    """Numbers of records, the first few."""
    ordered = sorted(found)
    shown = ", ".join(f"{name} {number}" for name, number in ordered[:5])
    return f"{len(ordered)}: {shown}{' ...' if len(ordered) > 5 else ''}"
