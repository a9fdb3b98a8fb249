"""The companion of a database server that decides when its commits are acknowledged.

It runs beside each PostgreSQL or MariaDB server with ``synchronous``, as a child of the server's
guard.  Several times a second it looks who confirms the primary's commits.  It refuses further
commits, or lets the primary go on alone, as ``backends.acknowledging.next_state`` says.  While this
process is away, commits wait.

``synchronous.json`` in the node's data directory says at any time what every acknowledged commit
certainly had.  So a weaker state is there before it takes effect.  A stronger one is there only
when the followers have everything that was acknowledged before commits waited for them.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.backends.acknowledging import CommitsLook, next_state
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.model import Synchronous, SyncLevel, WhenAlone
from indico_zodbrepl.cluster.reloading import ClusterFile
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import guarded, promise
from indico_zodbrepl.host import state as node_state
from indico_zodbrepl.host.commit_orders import order, order_file, read, state_file
from indico_zodbrepl.host.lines import write_line
from indico_zodbrepl.host.promise import Promise
from indico_zodbrepl.probing.answers import AckState
from indico_zodbrepl.probing.waiting import wait_until

INTERVAL = 0.3
ANSWER_SECONDS = 3.0


def wanted_of(configured: Synchronous, orders: Mapping[str, Any]) -> Synchronous:
    """Return the settings, changed by orders."""
    return Synchronous(
        int(orders.get("count", configured.count)),
        SyncLevel(orders.get("level", configured.level)),
        float(orders.get("timeout", configured.timeout)),
        WhenAlone(orders.get("alone", configured.alone)),
    )


def weaker(known: Promise | None, epoch: int, wanted: Synchronous) -> Promise | None:
    """Return what commits had that were acknowledged with less than is wanted; else None.  Pure.

    Args:
        known: the record until now.
    """
    if known is None or known.epoch != epoch:
        return None
    levels = list(SyncLevel)
    level = min(SyncLevel(known.level), wanted.level, key=levels.index)
    if known.is_kept and known.count >= wanted.count and level is wanted.level:
        return None
    state = AckState.WAITING if known.is_kept else known.state
    return Promise(epoch, state, min(known.count, wanted.count), level)


class Keeper:
    """Keeps the acknowledged commits of one server.

    Args:
        path: the cluster file, read again when it has changed.
    """

    def __init__(self, path: Path, home: Path, name: str) -> None:
        self._file, self._name = ClusterFile(path, home), name
        self._cluster: Cluster
        self._state = AckState.OFF
        self._since = time.monotonic()
        self._applied: tuple[AckState, Synchronous, object, tuple[str, ...]] | None = None
        self._position = ""
        self._looks = 0
        self._said = ""

    def once(self) -> None:
        """Look once, and apply the state that follows.  Raises OperatorError, OSError."""
        self._cluster = self._file.load()
        cluster, node = self._cluster, self._cluster.node(self._name)
        native = native_of(cluster)
        deadline = time.monotonic() + ANSWER_SECONDS
        orders = read(order_file(node))
        present = node_state.current(cluster, node)
        epoch = present.epoch
        wanted = wanted_of(guarded.promised(cluster, present).synchronous, orders)
        less = weaker(promise.read(node), epoch, wanted)
        look = native.look_at_commits(cluster, node, self._position, deadline, settled=less is None)
        if look is None:
            self._state, self._applied, self._position = AckState.OFF, None, ""
            return
        self._position = look.position
        state = next_state(
            self._state,
            time.monotonic() - self._since,
            look,
            wanted,
            told=bool(orders.get("go_alone")),
            when_told=guarded.told_first(cluster),
        )
        if state is AckState.SYNCHRONOUS and less is not None and not self._waited(wanted):
            state = AckState.WAITING
        number = orders.get("number")
        if (state, wanted, number, _names(cluster)) != self._applied:
            certain = less if less and state in (AckState.WAITING, AckState.REFUSING) else None
            found = certain or Promise(epoch, state, wanted.count, wanted.level)
            self._enter(state, wanted, look, found, number)

    def _waited(self, wanted: Synchronous) -> bool:
        """Return True once the followers have what was acknowledged before commits waited.

        A look shows that they have everything up to the position of the look before, and only the
        first one after commits began to wait is beyond all that.
        """
        waits = self._applied is not None and self._applied[:2] == (AckState.WAITING, wanted)
        self._looks = self._looks + 1 if waits else 0
        return self._looks > 1

    def _enter(
        self,
        state: AckState,
        wanted: Synchronous,
        look: CommitsLook,
        certain: Promise,
        number: object,
    ) -> None:
        """Apply a state, with the order of this number.

        Args:
            certain: what the record says of it.
        """
        cluster, node = self._cluster, self._cluster.node(self._name)
        record = {
            **dataclasses.asdict(certain),
            "node": node.name,
            "at": time.time(),
            "timeout": wanted.timeout,
            "alone": wanted.alone,
            "acknowledged": None,
            "in_doubt": look.waiting,
            "confirming": dict(look.confirming),
            "obeyed": None if self._applied is None else self._applied[2],
        }
        if state in (AckState.ASKING, AckState.SYNCHRONOUS) and read(order_file(node)).get(
            "go_alone"
        ):
            # An answer to an earlier question, which may come after the followers: the record that
            # it stands for has ended.  Nobody sees the new question yet.
            order(node, go_alone=False)
        # First, so that nobody promotes a follower without what is acknowledged from now on.
        write_atomically(state_file(node), json.dumps(record))
        deadline = time.monotonic() + ANSWER_SECONDS
        native_of(cluster).set_commits(cluster, node, state, wanted, deadline)
        if state is not self._state:
            say(
                f"acknowledged commits: {self._state} -> {state}, "
                f"{len(look.confirming)} of {wanted.count} followers confirm, "
                f"{look.waiting} commits wait"
            )
            self._state, self._since = state, time.monotonic()
        if number is not None and record["obeyed"] != number:
            write_atomically(state_file(node), json.dumps({**record, "obeyed": number}))
        self._applied = state, wanted, number, _names(cluster)

    def keep(self) -> bool:
        """Look once; report a problem once; return False."""
        try:
            self.once()
            problem = ""
        except OperatorError as error:
            problem = f"{error.notice}: {error.detail}"
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}"
        if problem and problem != self._said:
            say(problem)
        self._said = problem
        return False


def _names(cluster: Cluster) -> tuple[str, ...]:
    """Return the names of the nodes, of which only followers may confirm commits."""
    return tuple(node.name for node in cluster.nodes)


def say(text: str) -> None:
    write_line(f"commit keeper: {text}")


def main(path: str, home: str, name: str) -> None:
    """Keep the acknowledged commits of a node until a signal ends this process."""
    keeper = Keeper(Path(path), Path(home), name)
    wait_until(keeper.keep, float("inf"), INTERVAL)


if __name__ == "__main__":
    main(*sys.argv[1:4])
