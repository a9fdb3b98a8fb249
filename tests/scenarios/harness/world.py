"""What a scenario works with: a cluster, clients at work, what was measured."""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from clients import Reader, Writer, examine
from clusters import Roles, wait_until
from hosts import Hosts
from ledger import Account, Declared, Ranges, Record, account, records
from prefixes import Export
from sampler import Sampler
from visitors import ROUNDS, Visitors, titles_in

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.operations import journal

STARTED = 15  # successes of each client before a fault, and after it
PAUSE = "0.1"  # seconds between two commits of a writer


class World:
    """One scenario's; ``close`` ends everything that was started.

    Args:
        folder: an empty folder.
        home: the installation.
        feature, name: of the scenario.
    """

    def __init__(self, folder: Path, home: Path, feature: str, name: str) -> None:
        self.feature = feature
        self.name = name
        self.folder = folder
        self.writers: list[Writer] = []
        self.readers: list[Reader] = []
        self.visitors: Visitors | None = None
        self.settled = 0.0
        self.disturbed = 0.0
        self.hung = 0  # process id of a server that was frozen
        self.times: list[tuple[str, float]] = []
        self._home = home
        self._cluster: Hosts | None = None
        self._opened = contextlib.ExitStack()

    @property
    def cluster(self) -> Hosts:
        assert self._cluster, "the scenario has no cluster"
        return self._cluster

    @functools.cached_property
    def sampler(self) -> Sampler:
        return self._opened.enter_context(Sampler(self.cluster.cluster))

    def make_cluster(
        self,
        nodes: Roles,
        indico: tuple[str, ...] = (),
        *,
        kind: type[Hosts] = Hosts,
        **backend: Any,
    ) -> Hosts:
        """A cluster that is not up yet; for ``backend`` see ``ClusterUnderTest``."""
        folder = self.folder / "cluster"
        folder.mkdir(exist_ok=True)
        self._cluster = kind(folder, self._home, nodes, indico, **backend)
        self._opened.callback(self._cluster.close)
        return self._cluster

    def keep_until_closed(self, close: Callable[[], None]) -> None:
        """Have something closed when the world is: after all that is started later."""
        self._opened.callback(close)

    def start_clients(
        self, writers: int, readers: int, size: int = 2000, pause: str = PAUSE
    ) -> None:
        """Start writers and readers, and wait until each has succeeded several times."""
        assert self.sampler
        began = time.monotonic()
        for number in range(1, writers + 1):
            self.start_writer(f"writer-{number}", size, pause)
        for number in range(1, readers + 1):
            self.start_reader(f"reader-{number}")
        self.wait_for_clients(began)

    def welcome(self, category: str) -> None:
        """Let users work on the Indico instances; they add to a category."""
        assert self.sampler
        self.visitors = Visitors(self.cluster, category)
        self._opened.callback(self.visitors.stop)
        self.wait_for_clients(time.monotonic())

    def start_writer(self, name: str, size: int = 2000, pause: str = PAUSE) -> None:
        configuration, log = self.cluster.layout.zodb_conf, self.folder / f"{name}.log"
        self.writers.append(Writer(self.cluster, configuration, log, name, size, pause=pause))
        self._opened.callback(self.writers[-1].kill)

    def start_reader(
        self, name: str, configuration: Path | None = None, within: str = "0"
    ) -> Reader:
        reader = Reader(
            self.cluster,
            configuration or self.cluster.layout.zodb_conf,
            self.folder / f"{name}.log",
            within,
        )
        self.readers.append(reader)
        self._opened.callback(reader.kill)
        return reader

    def start_cached_reader(self, name: str) -> Reader:
        """Start a reader with a cache on disk, which outlives it."""
        configuration = self.folder / f"{name}.conf"
        text = self.cluster.layout.zodb_conf.read_text()
        configuration.write_text(
            text.replace(
                "    cache-size", f"    cache-path {self.folder}/{name}.zec\n    cache-size"
            )
        )
        return self.start_reader(name, configuration)

    def wait_for_clients(self, since: float, count: int = STARTED) -> None:
        """Wait until all clients have succeeded so many times; users take much longer."""
        if self.visitors:
            self.visitors.wait_for_successes(ROUNDS, since)
        for client in (*self.writers, *self.readers):
            client.wait_for_successes(count, since)

    def wait_for_writers(self, since: float, count: int = STARTED) -> None:
        for writer in self.writers:
            writer.wait_for_successes(count, since)

    def wait_for_readers(self, since: float, count: int = STARTED) -> None:
        for reader in self.readers:
            reader.wait_for_successes(count, since)

    def run(self, *arguments: str) -> str:
        """A command that has to succeed; its output. How long it took is kept."""
        began = time.monotonic()
        done = self.cluster.cli(*arguments)
        self.times.append((arguments[0], time.monotonic() - began))
        assert done.returncode == 0, (
            f"zodbrepl {' '.join(arguments)}: {done.returncode}\n{done.stdout}"
        )
        return done.stdout

    def pause_writers(self) -> None:
        for writer in self.writers:
            writer.pause()

    def go_on_writing(self) -> None:
        for writer in self.writers:
            writer.go_on()

    def wait_until_caught_up(self, seconds: float) -> None:
        """Wait until all nodes end with the same transaction; for times without writes."""
        wait_until(
            lambda: len({self.last(node) for node in self.cluster.nodes}) == 1,
            f"all nodes end with the same transaction; {self.lasts()}",
            seconds,
        )

    def lasts(self) -> str:
        """The last transaction of each node as a text."""
        return ", ".join(f"{node}: {self.last(node)}" for node in self.cluster.nodes)

    def held_in_files(self, *, tolerant: bool = False) -> dict[str, dict[Record, str]]:
        """The records in each node's data file with their transactions, whatever its server says.

        Args:
            tolerant: whether a file that can't be read counts as an empty one.
        """
        found = {}
        for node in self.cluster.nodes:
            try:
                [held] = examine(self.cluster, "files", [self.cluster.data_fs(node)])
            except AssertionError:
                if not tolerant:
                    raise
                held = []
            found[node] = _with_transactions(held)
        return found

    def examine(self, nodes: Sequence[str]) -> dict[str, Any]:
        """What nodes hold, each by its own word."""
        paths = [
            self.cluster.layout.node_zodb_conf(self.cluster.cluster.node(node)) for node in nodes
        ]
        return dict(zip(nodes, examine(self.cluster, "nodes", paths), strict=True))

    def stop_writers(self) -> None:
        if self.visitors:
            self.visitors.end()
        for writer in self.writers:
            writer.end()

    def wait_until_equal(self, nodes: list[str]) -> None:
        """End the writers, then wait until the nodes hold the same, object by object."""
        self.stop_writers()
        wait_until(
            lambda: len({self.last(node) for node in nodes}) == 1,
            f"{', '.join(nodes)} end with the same transaction",
        )
        found = self.examine(nodes)
        assert dict.fromkeys(nodes, found[nodes[0]]) == found

    def last(self, node: str) -> str:
        """The last transaction of a node, by its own word; a text that is nobody else's if none."""
        answer = self.sampler.ask(self.cluster.cluster.node(node))
        return f"unknown of {node}" if answer is None else f"{answer.last_tid:x}"

    def is_connected(self, node: str) -> bool:
        """Whether a follower says that its link to its upstream stands."""
        answer = self.sampler.ask(self.cluster.cluster.node(node))
        return bool(answer and answer.replication and answer.replication.connected)

    def primary(self) -> str:
        """The node that is assigned as primary in the highest epoch."""
        cluster = self.cluster.cluster
        states = {
            name: self.cluster.state(name)
            for name in self.cluster.nodes
            if backend_of(cluster).has_data(cluster, cluster.node(name))
        }
        return max(
            (name for name, state in states.items() if state["role"] == "primary"),
            key=lambda name: str(states[name]["epoch"]).zfill(9),
        )

    @functools.cached_property
    def account(self) -> Account:
        """The ledger, closed: clients end, what they did is compared with the primary."""
        self.stop_writers()
        for reader in self.readers:
            reader.end()
        attempts = [attempt for writer in self.writers for attempt in writer.attempts()]
        sights = [sight for reader in self.readers for sight in reader.sights()]
        held = records(self._held())
        if self.visitors:
            primary = self.primary()
            attempts += self.visitors.attempts()
            held |= self.visitors.held_by(primary)
            saved = frozenset(each.record for each in attempts if each.acknowledged)
            sights += [*self.visitors.pages_read(), *self.visitors.last_look(saved - held)]
        return account(
            attempts,
            sights,
            held,
            self.exported(),
            settled=self.settled,
            losses=self.declared_losses(),
            disturbed=self.disturbed,
        )

    def declared_losses(self) -> list[Declared]:
        """What the journal declares as out of reach: after which transaction, until when.

        Nothing of a failover that could read the old primary's data, nor of one whose old primary
        got its data back later: what it had alone has to be exported then.
        """
        since_boot = time.time() - time.monotonic()
        found = []
        for entry in journal.read(self.cluster.cluster)[0]:
            loss, ended = entry.plan.loss, entry.ended
            if entry.plan.operation != "failover" or loss is None or loss.exact or ended is None:
                continue
            until = ended - since_boot
            back = [moment for node, moment in self.cluster.returned if node == loss.node]
            if loss.after is not None and not any(moment > until for moment in back):
                found.append(Declared(loss.after, until))
        return found

    def _held(self) -> Ranges:
        """The numbers of each writer's records that the cluster has now."""
        cluster = self.cluster.cluster
        if backend_of(cluster).readable_nodes(cluster):
            primary = self.primary()
            found: Ranges = self.examine([primary])[primary]["held"]
        else:
            [found] = examine(self.cluster, "held", [self.cluster.layout.zodb_conf])
        return found

    def exported(self) -> frozenset[Record]:
        """The records that the exports hold, as their own data files say."""
        exported = frozenset(record for each in self.exports() for record in each.records)
        if self.visitors:
            for tail in self._tails():
                exported |= titles_in(tail.read_bytes(), list(self.visitors.attempts()))
        return exported

    def exports(self) -> list[Export]:
        """Each export: its list says where it begins, its data file what it holds."""
        tails = self._tails()
        found = examine(self.cluster, "tails", tails) if tails else []
        return [
            Export(
                listed["after"],
                frozenset(each["tid"] for each in listed["transactions"]),
                _with_transactions(held),
            )
            for tail, held in zip(tails, found, strict=True)
            for listed in [json.loads(tail.with_suffix(".json").read_bytes())]
        ]

    def _tails(self) -> list[Path]:
        return sorted((self.cluster.layout.var / "lost-tails").glob("*/tail.fs"))

    def close(self) -> None:
        self._opened.close()


def _with_transactions(found: Iterable[tuple[str, int, str]]) -> dict[Record, str]:
    return {(name, number): tid for name, number, tid in found}
