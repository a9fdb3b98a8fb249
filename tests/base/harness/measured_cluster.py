"""A cluster of one kind that is measured: what a dead server costs it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from clients import Writer, examine
from clusters import settled, wait_until
from kinds import ClusterOfKind, Kind
from ledger import Record, longest_gap, records
from rounds import Disturbance

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.monitor import State, take_snapshot

BEFORE = 1.0  # seconds of undisturbed work that count as part of a disturbance
AFTER = 3.0  # seconds until what a kill does has been felt
LOAD = 2  # writers that a disturbance meets
WRITER_PAUSE = "0.04"  # seconds
RECORD_BYTES = 2000
LOOK_SECONDS = 10.0  # of each look at the cluster; a busy machine may be slow


class MeasuredCluster(ClusterOfKind):
    """A cluster without Indico; ``close`` ends all that runs and removes its folder.

    Args:
        folder: does not exist yet; other users must be able to reach it.
        home: the installation.
    """

    def __init__(self, folder: Path, home: Path, kind: Kind) -> None:
        folder.mkdir()
        super().__init__(folder, home, kind)
        self.indico = ()
        self.write()
        self._numbers = itertools.count(1)

    def up(self) -> None:
        super().up()
        self.stop("admin")

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def configuration(self) -> Path:
        """Of the storage, as Indico opens it."""
        return Layout(self.cluster).zodb_conf

    @property
    def primary(self) -> str:
        return (
            settled(
                lambda: take_snapshot(self.cluster, LOOK_SECONDS).primary,
                lambda found: found is not None,
                True,
            )
            or ""
        )

    def kill_and_wait(self) -> Disturbance:
        """Kill the server of the primary, which supervisor starts again."""
        return self._disturbed(lambda _: self.signal(self.primary, signal.SIGKILL))

    def kill_storage(self) -> Disturbance:
        """Kill a server of NEO that holds a copy."""
        return self._disturbed(lambda _: self.signal("s1", signal.SIGKILL))

    def kill_writer(self) -> Disturbance:
        """Kill one of those who write, where each opens the files itself."""
        return self._disturbed(lambda writers: writers[-1].kill())

    def fail_over(self) -> Disturbance:
        """Kill the primary for good, give the command at once, and let the old primary rejoin.

        A primary that waits for a secondary at each commit takes none before that. Where the old
        primary can't rejoin with what it has, the cluster starts again.
        """
        old, new = self._pair()
        tails = len(self._tails())
        rejoined = []

        def disturb(_: list[Writer]) -> None:
            self.die(old)
            self.succeed("failover", new, "--reason", "to measure it")
            rejoined.append(self.cli("rejoin", old).returncode == 0)

        try:
            found = self._disturbed(disturb)
        finally:
            if rejoined == [False]:
                self.close()
                self.folder.mkdir()
                self.write()
                self.up()
        return dataclasses.replace(
            found, diverged=rejoined == [False] or len(self._tails()) > tails
        )

    def switch_over(self) -> Disturbance:
        _, new = self._pair()
        return self._disturbed(
            lambda _: self.succeed("switchover", new, "--reason", "to measure it")
        )

    def succeed(self, *arguments: str) -> None:
        done = self.cli(*arguments)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"

    def _wait_until_healthy(self) -> None:
        settled(
            lambda: take_snapshot(self.cluster, LOOK_SECONDS),
            lambda found: found.state,
            State.HEALTHY,
        )

    def _pair(self) -> tuple[str, str]:
        old = self.primary
        return old, next(name for name in self.nodes if name != old)

    def _disturbed(self, disturb: Callable[[list[Writer]], None]) -> Disturbance:
        self._wait_until_healthy()
        with self._writers() as writers:
            began = time.monotonic()
            disturb(writers)
            time.sleep(AFTER)
            over = time.monotonic()
            wait_until(
                lambda: any(_acknowledged_since(each, over) for each in writers),
                "somebody commits again",
            )
            alive = [each for each in writers if not each.is_over]
            for each in alive:
                each.wait_for_successes(5, over)
            attempts = [
                attempt for each in writers for attempt in each.attempts() if attempt.acknowledged
            ]
            told = frozenset(each.record for each in attempts)
            missing = told - self._held()
            gap = longest_gap(each.ended for each in attempts if each.ended >= began - BEFORE)
        return Disturbance(gap, len(told), len(missing), len(missing & self._exported()))

    @contextlib.contextmanager
    def _writers(self) -> Iterator[list[Writer]]:
        began = time.monotonic()
        with contextlib.ExitStack() as opened:
            writers = []
            for _ in range(LOAD):
                name = f"writer-{next(self._numbers)}"
                writers.append(
                    Writer(
                        self,
                        self.configuration,
                        self.folder / f"{name}.log",
                        name,
                        RECORD_BYTES,
                        pause=WRITER_PAUSE,
                    )
                )
                opened.callback(writers[-1].kill)
            for each in writers:
                each.wait_for_successes(15, began)
            yield writers

    def _held(self) -> frozenset[Record]:
        [found] = examine(self, "held", [self.configuration])
        return records(found)

    def _exported(self) -> frozenset[Record]:
        tails = self._tails()
        found = examine(self, "tails", tails) if tails else []
        return frozenset((name, number) for tail in found for name, number, _ in tail)

    def _tails(self) -> list[Path]:
        return sorted((Layout(self.cluster).var / "lost-tails").glob("*/tail.fs"))


def _acknowledged_since(writer: Writer, moment: float) -> bool:
    return writer.successes_since(moment) > 0
