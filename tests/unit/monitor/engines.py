"""Clusters of other backends than ZRS in made-up situations, with facts in their engines' words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import situations
from situations import HOME, REFUSED, SILENT, TID, TID_TIME, program

from indico_zodbrepl.cluster.model import Cluster, Node, NodeState, Role
from indico_zodbrepl.cluster.settings import NeoSettings, PostgreSQLSettings, SQLiteSettings
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY
from indico_zodbrepl.monitor.assessment import assess
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.probing.answers import (
    Alert,
    Fact,
    IndicoAnswer,
    Level,
    MissingAnswer,
    Replication,
    ServerAnswer,
    ServerRole,
)
from indico_zodbrepl.probing.comparison import Comparison, Failure
from indico_zodbrepl.probing.wire import FailureKind

GONE = Failure(FailureKind.REFUSED, "nothing listens there")


@dataclasses.dataclass(frozen=True)
class Situation:
    """A cluster and what was found of it; ``servers`` and ``indico`` decide the rest."""

    cluster: Cluster
    servers: Mapping[str, ServerAnswer | Failure]
    indico: Mapping[str, IndicoAnswer | Failure]
    programs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    comparisons: Mapping[str, Comparison] = dataclasses.field(default_factory=dict)
    supervisor_problem: str = ""

    @property
    def findings(self) -> Findings:
        """Programs run, except for those whose state is given."""
        states = {
            node.name: NodeState(self.cluster.name, node.name, node.role, node.upstream, 1)
            for node in self.cluster.nodes
        }
        programs = (
            {}
            if self.supervisor_problem
            else {
                name: program(name, self.programs.get(name, "RUNNING"))
                for name in self.cluster.program_names()
            }
        )
        return Findings(
            TID_TIME + 60,
            0.02,
            states,
            self.servers,
            self.comparisons,
            self.indico,
            programs,
            self.supervisor_problem,
        )

    @property
    def snapshot(self) -> Snapshot:
        return assess(self.cluster, self.findings, HOME)

    def but(self, **changes: Any) -> Situation:
        """This one with entries of its mappings laid over."""
        laid: dict[str, Any] = {
            name: {**getattr(self, name), **value} if isinstance(value, dict) else value
            for name, value in changes.items()
        }
        return dataclasses.replace(self, **laid)


def changed(situation: Situation, name: str, **changes: Any) -> ServerAnswer:
    """What a node's server answers in a situation, with some of it changed."""
    answer = situation.servers[name]
    assert isinstance(answer, ServerAnswer)
    assert answer.replication is not None
    return dataclasses.replace(
        answer, replication=dataclasses.replace(answer.replication, **changes)
    )


def instances(server: str | None, **changes: Any) -> dict[str, IndicoAnswer | Failure]:
    return {
        name: dataclasses.replace(IndicoAnswer(name, 201, server, True, False, TID), **changes)
        for name in ("one", "two")
    }


def _node(
    name: str, role: Role, port: int | None, upstream: str | None = None, **changes: Any
) -> Node:
    return Node(name, "127.0.0.1", port, None, HOME / "var/node" / name, role, upstream, **changes)


def _answer(
    node: Node,
    role: ServerRole,
    facts: tuple[Fact, ...],
    last: int = TID,
    problems: tuple[Alert, ...] = (),
    **changes: Any,
) -> ServerAnswer:
    made = Replication("demo", node.name, role, None, None, None, (), 0, 4 << 20, True)
    return ServerAnswer(last, 2, dataclasses.replace(made, **changes), facts, problems)


def facts(**said: str) -> tuple[Fact, ...]:
    return tuple(Fact(label.replace("_", " "), value) for label, value in said.items())


_M1, _M2 = _node("m1", Role.MASTER, 8141), _node("m2", Role.MASTER, 8142)
_S1, _S2 = _node("s1", Role.STORAGE, 8143), _node("s2", Role.STORAGE, 8144)
_ADM = _node("adm", Role.ADMIN, 8145)
_CELLS = facts(state="RUNNING", cells="12 up to date of 12", disk="SQLite, write-ahead log")

NEO = Situation(
    situations.cluster(
        backend="neo", nodes=(_M1, _M2, _S1, _S2, _ADM), settings=NeoSettings(replicas=1)
    ),
    {
        "m1": _answer(
            _M1,
            ServerRole.MASTER,
            read_only=False,
            facts=facts(
                cluster_state="RUNNING",
                partitions="12, each on 2 storage nodes",
                worst_partition="2 copies up to date",
            ),
        ),
        "m2": _answer(_M2, ServerRole.MASTER, facts(state="RUNNING"), last=0),
        "s1": _answer(_S1, ServerRole.STORAGE, _CELLS),
        "s2": _answer(_S2, ServerRole.STORAGE, _CELLS),
        "adm": _answer(_ADM, ServerRole.ADMIN, (), last=0),
    },
    instances("127.0.0.1:8141"),
)
NEO_STORAGE_KILLED = NEO.but(
    servers={
        "s2": GONE,
        "m1": _answer(
            _M1,
            ServerRole.MASTER,
            facts(cluster_state="RUNNING", worst_partition="1 copy up to date"),
            read_only=False,
            problems=(
                Alert(
                    Level.WARNING,
                    "m1",
                    "every partition has one copy only",
                    "s2 is DOWN",
                    "bring s2 back: `bin/zodbrepl node start s2`",
                ),
            ),
        ),
    },
    programs={"node-s2": "STOPPED"},
)
NEO_MASTERS_KILLED = NEO.but(
    servers={"m1": GONE, "m2": GONE},
    programs={"node-m1": "EXITED", "node-m2": "STOPPED"},
    indico=instances(None, connected=False),
)

_A = _node("a", Role.PRIMARY, 8151)
_B = _node("b", Role.SECONDARY, 8152, "a")
_PRIMARY = facts(
    WAL_position="0/3A5F2C8, timeline 1",
    follower_b="streaming, async, 0 bytes behind; write, flush, replay lag 0.000, 0.001, 0.001 s",
    slot_zodbrepl_b="active, WAL reserved, 0 MiB kept",
)
_STANDBY = facts(
    WAL_position="0/3A5F2C8, timeline 1",
    WAL_receiver="streaming",
    replay_behind_the_last_commit="0 s",
)

POSTGRESQL = Situation(
    situations.cluster(
        backend="relstorage-postgresql", nodes=(_A, _B), settings=PostgreSQLSettings()
    ),
    {
        "a": _answer(
            _A, ServerRole.PRIMARY, _PRIMARY, epoch=1, read_only=False, followers=("zodbrepl-b",)
        ),
        "b": _answer(
            _B, ServerRole.SECONDARY, _STANDBY, epoch=1, upstream="127.0.0.1:8151", connected=True
        ),
    },
    instances("127.0.0.1:8151"),
    comparisons={"b": Comparison("a", TID, MissingAnswer(0, True))},
)
POSTGRESQL_CUT_OFF = POSTGRESQL.but(
    servers={
        "b": _answer(
            _B,
            ServerRole.SECONDARY,
            facts(WAL_receiver="no WAL receiver"),
            epoch=1,
            upstream="127.0.0.1:8151",
            connected=False,
        )
    },
    comparisons={"b": Comparison("a", TID + 1000, MissingAnswer(3, True))},
)
POSTGRESQL_PRIMARY_KILLED = POSTGRESQL.but(
    servers={
        "a": REFUSED,
        "b": _answer(
            _B, ServerRole.SECONDARY, _STANDBY, epoch=1, upstream="127.0.0.1:8151", connected=False
        ),
    },
    programs={"node-a": "STOPPED"},
    indico=instances("127.0.0.1:8152", read_only=True),
)
FOREIGN = dataclasses.replace(
    POSTGRESQL,
    cluster=situations.cluster(
        backend="relstorage-postgresql",
        settings=PostgreSQLSettings(),
        nodes=(
            _node("a", Role.PRIMARY, 8151, managed=False),
            _node("b", Role.SECONDARY, 8152, "a", managed=False),
        ),
    ),
).but(
    servers={
        "a": _answer(_A, ServerRole.PRIMARY, _PRIMARY, read_only=False),
        "b": _answer(_B, ServerRole.SECONDARY, _STANDBY, upstream="127.0.0.1:8151", connected=True),
    }
)
FOREIGN_KILLED = FOREIGN.but(
    servers={"a": REFUSED}, comparisons={}, indico=instances(None, connected=False)
)

_ONE = _node("a", Role.PRIMARY, None)
SQLITE = Situation(
    situations.cluster(backend="relstorage-sqlite", nodes=(_ONE,), settings=SQLiteSettings()),
    {
        "a": _answer(
            _ONE,
            ServerRole.STANDALONE,
            facts(journal_mode="wal", file="main.sqlite3, 4.0 MiB and 12 KiB of log"),
            read_only=False,
        )
    },
    instances(None),
)
SQLITE_WITHOUT_INDICO = SQLITE.but(
    indico={"one": GONE, "two": GONE}, supervisor_problem=SUPERVISOR_AWAY
)
SQLITE_DISK_AWAY = SQLITE.but(
    servers={"a": Failure(FailureKind.UNREACHABLE, "var/node/a/main.sqlite3: No such file")},
    indico=instances(None, connected=False),
)

SITUATIONS = {
    "neo": NEO,
    "neo storage killed": NEO_STORAGE_KILLED,
    "neo masters killed": NEO_MASTERS_KILLED,
    "postgresql": POSTGRESQL,
    "postgresql cut off": POSTGRESQL_CUT_OFF,
    "postgresql primary killed": POSTGRESQL_PRIMARY_KILLED,
    "foreign": FOREIGN,
    "foreign killed": FOREIGN_KILLED,
    "sqlite": SQLITE,
    "sqlite without Indico": SQLITE_WITHOUT_INDICO,
    "sqlite disk away": SQLITE_DISK_AWAY,
    "neo unknown": NEO.but(
        servers=dict.fromkeys(NEO.servers, SILENT),
        indico={"one": SILENT, "two": SILENT},
        supervisor_problem="no answer in time",
    ),
}
