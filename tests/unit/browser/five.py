"""A cluster of five nodes, three sites deep, with an hour of lag: the most that pages draw."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

import situations
from situations import ONE_SECOND, SILENT, TID, TID_TIME, program, server

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, Node, NodeState, Role
from indico_zodbrepl.cluster.programs import IndicoInstance, Watch
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitord.history import FILE, Store
from indico_zodbrepl.monitord.series import RESOLUTIONS, UNKNOWN, Kind, Measured, Series
from indico_zodbrepl.probing.answers import MissingAnswer, ServerAnswer, ServerRole
from indico_zodbrepl.probing.comparison import Comparison, Failure

NOW = TID_TIME + 60
UPSTREAMS = {"a": None, "b": "a", "c": "a", "d": "b", "e": "b"}
ROLES = {"a": Role.PRIMARY, "b": Role.RELAY}


def cluster(var: Path) -> Cluster:
    """Primary a; relay b and secondary c follow it; d and e follow b."""
    nodes = tuple(
        Node(
            name,
            "127.0.0.1",
            8111 + 10 * number,
            8112 + 10 * number,
            var / "node" / name,
            ROLES.get(name, Role.SECONDARY),
            upstream,
        )
        for number, (name, upstream) in enumerate(UPSTREAMS.items())
    )
    indico = tuple(
        IndicoInstance(name, "127.0.0.1", 8101 + number)
        for number, name in enumerate(("one", "two", "three"))
    )
    return situations.cluster(
        nodes=nodes, indico=indico, var_directory=var, watch=Watch("127.0.0.1", 8109)
    )


def snapshot(of: Cluster, now: float = NOW, **servers: ServerAnswer | Failure) -> Snapshot:
    """What is found of it when all is well, but for some of its servers."""
    states = {
        node.name: NodeState("demo", node.name, node.role, node.upstream, 1) for node in of.nodes
    }
    found: dict[str, ServerAnswer | Failure] = {node.name: _answer(of, node) for node in of.nodes}
    found |= servers
    comparisons = {
        name: Comparison("a", TID, MissingAnswer(_missing(answer), True))
        for name, answer in found.items()
        if name != "a" and isinstance(answer, ServerAnswer)
    }
    indico = {
        instance.name: situations.instance(
            instance.name,
            server=("127.0.0.1:8121" if instance.name == "three" else "127.0.0.1:8111"),
            read_only=instance.name == "three",
        )
        for instance in of.indico
    }
    changes: dict[str, Any] = {
        "states": states,
        "servers": found,
        "comparisons": comparisons,
        "indico": indico,
        "programs": {name: program(name) for name in of.program_names()},
        "taken_at": now,
    }
    return situations.snapshot(of, **changes)


def late(of: Cluster, name: str, seconds: int) -> ServerAnswer:
    """The answer of a follower that is so far behind."""
    return dataclasses.replace(_answer(of, of.node(name)), last_tid=TID - seconds * ONE_SECOND)


def cut_off(of: Cluster, name: str) -> ServerAnswer:
    """The answer of a follower without a connection."""
    answer = _answer(of, of.node(name))
    assert answer.replication is not None
    return dataclasses.replace(
        answer,
        last_tid=TID - 90 * ONE_SECOND,
        replication=dataclasses.replace(answer.replication, connected=False),
    )


FROZEN = SILENT


def _answer(of: Cluster, node: Node) -> ServerAnswer:
    upstream = None if node.upstream is None else str(of.node(node.upstream).replication_address)
    followers = tuple(
        f"127.0.0.1:4{number}00"
        for number, name in enumerate(UPSTREAMS)
        if UPSTREAMS[name] == node.name
    )
    return server(
        "a",
        node=node.name,
        role=ServerRole(node.role),
        upstream=upstream,
        connected=None if upstream is None else True,
        followers=followers,
        read_only=node.role is not Role.PRIMARY,
    )


def _missing(answer: ServerAnswer) -> int:
    return round((TID - answer.last_tid) / ONE_SECOND) * 3


def keep_an_hour(of: Cluster, until: float = NOW) -> None:
    """Write the lags of an hour as the watching program would have, a round a second."""
    store = _store(of)
    for second in range(3600):
        store.add(until - 3600 + second, Measured(_lags(second)))
    store.close()


def keep_a_week(of: Cluster, until: float = NOW) -> None:
    """Fill each slot of each resolution with all series of five nodes on three hosts."""
    store = _store(of)
    for resolution in reversed(RESOLUTIONS):
        for second in range(resolution.span, 0, -resolution.seconds):
            if not 5 * 3600 < second < 6 * 3600:  # the monitor was stopped
                store.add(until - second, _all(604800 - second))
    store.add(until, _all(604800))
    store.close()


def measure(of: Cluster) -> None:
    """Add measurements of now to those that were kept."""
    store, now = _store(of), time.time()
    store.add(now, _all(int(now) % 604800))
    store.close()


def _all(second: int) -> Measured:
    """What a busy cluster measures: a day has its rhythm, and disks fill."""
    day = 1 + math.sin(second / 86400 * 2 * math.pi)
    noise = 1 + 0.3 * math.sin(second / 37) * math.sin(second / 1013)
    values = [*_lags(second % 3600), (Series(Kind.COMMITS, "a"), 4 * day * noise)]
    latencies = {}
    for number, name in enumerate(("one", "two", "three"), 1):
        busy = day * noise * number
        values += [
            (Series(Kind.INSTANCE_COMMITS, name), busy / 2),
            (Series(Kind.REQUESTS, name), 9 * busy),
            (Series(Kind.CONFLICTS, name), max(0.0, busy - 4)),
            (Series(Kind.UNAVAILABLE, name), 30.0 if 300000 < second < 300600 else 0.0),
        ]
        latencies[name] = {0.005657: 60, 0.011314: 30 + 5 * number, 0.064: 1 + int(busy)}
    values += [(Series(Kind.DATA_SIZE, name), 4e9 + 2000 * second) for name in UPSTREAMS]
    values += [
        (Series(Kind.DISK_FREE, "a, var"), 60e9 - 9000 * second),
        (Series(Kind.DISK_FREE, "b, c"), 90e9 - 5000 * second),
        (Series(Kind.DISK_FREE, "d, e"), 250e9),
    ]
    return Measured(values, latencies)


def _store(of: Cluster) -> Store:
    folder = Layout(of).watch
    folder.mkdir(parents=True, exist_ok=True)
    return Store(folder / FILE)


def _lags(second: int) -> list[tuple[Series, float]]:
    wave = 3 + 3 * math.sin(second / 200)
    unknown = 2000 < second < 2400
    return [
        (Series(Kind.LAG, "b"), wave / 10),
        (Series(Kind.LAG, "c"), 40.0 if 1200 < second < 1500 else 0.0),
        (Series(Kind.LAG, "d"), UNKNOWN if unknown else 0.0),
        (Series(Kind.LAG, "e"), wave),
        (Series(Kind.LAG_TRANSACTIONS, "b"), int(wave)),
        (Series(Kind.LAG_TRANSACTIONS, "c"), 9),
        (Series(Kind.LAG_TRANSACTIONS, "d"), UNKNOWN if unknown else 0),
        (Series(Kind.LAG_TRANSACTIONS, "e"), int(wave * 3)),
    ]
