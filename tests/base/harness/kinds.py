"""The storages under test: what their cluster files say and which of their processes is killed."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path

from clusters import ClusterUnderTest, wait_until

from indico_zodbrepl.backends import backend_of, names
from indico_zodbrepl.cluster.shapes import REPLICATION_PORT, SHAPES, STORAGE_PORT
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.monitor import take_snapshot

# Role and upstream of each node.
Nodes = dict[str, tuple[str, str | None]]
ALONE: Nodes = {"a": ("primary", None)}


@dataclasses.dataclass(frozen=True)
class Kind:
    """One storage.

    Attributes:
        settings: lines of the cluster file for the engine.
        one_process: whether a single process at a time can have the database open.
        victims: the nodes whose servers are killed one after another, asked of a cluster that is
            up; none where clients open the files themselves.
        untested: why it can't be tested here, else empty.
    """

    backend: str
    nodes: Nodes = dataclasses.field(default_factory=lambda: ALONE)
    settings: tuple[str, ...] = ()
    one_process: bool = False
    victims: tuple[Callable[[ClusterUnderTest], str], ...] = (lambda _: "a",)
    untested: str = ""


def elected_master(under_test: ClusterUnderTest) -> str:
    """The node that is the primary master of a NEO cluster now."""
    masters: list[str] = []

    def elected() -> bool:
        primary = take_snapshot(under_test.cluster).primary
        masters[:] = [primary] if primary else []
        return bool(masters)

    wait_until(elected, "a master is elected")
    return masters[0]


KINDS = (
    Kind("filestorage", one_process=True, victims=()),
    Kind("zeo"),
    Kind("zrs", {"a": ("primary", None), "b": ("secondary", "a")}),
    Kind(
        "neo",
        {
            "m1": ("master", None),
            "m2": ("master", None),
            "s1": ("storage", None),
            "s2": ("storage", None),
            "adm": ("admin", None),
        },
        ("<neo>", "  replicas 1", "</neo>"),
        victims=(elected_master, lambda _: "s1"),
    ),
    Kind("relstorage-sqlite", victims=()),
    Kind("relstorage-postgresql"),
    Kind("relstorage-mariadb"),
    Kind("relstorage-oracle", untested="no Oracle server can be had here"),
)


class ClusterOfKind(ClusterUnderTest):
    """A cluster of one kind, with two instances of Indico where there can be two.

    Args:
        folder: an empty folder that the engine's own user can reach.
        home: the installation.
    """

    def __init__(self, folder: Path, home: Path, kind: Kind) -> None:
        self.kind = kind
        super().__init__(folder, home, kind.nodes, ("one",) if kind.one_process else ("one", "two"))

    def write(self) -> None:
        ports = iter(self.ports)
        keys = SHAPES[self.kind.backend].ports
        lines = ["name test", f"backend {self.kind.backend}", f"var-directory {self.folder}/var"]
        for name, (role, upstream) in self.nodes.items():
            lines += [
                f"<node {name}>",
                "  host 127.0.0.1",
                f"  role {role}",
                f"  data-directory {self.folder}/var/node/{name}",
                *(
                    f"  {key} {next(ports)}"
                    for key in (STORAGE_PORT, REPLICATION_PORT)
                    if key in keys
                ),
                *([f"  upstream {upstream}"] if upstream else []),
                "</node>",
            ]
        lines += self.kind.settings
        for name in self.indico:
            lines += [f"<indico {name}>", f"  port {next(ports)}", "  scheduler no", "</indico>"]
        lines += ["<admin>", f"  port {next(ports)}", "</admin>", ""]
        self.path.write_text("\n".join(lines))

    def kill(self, node: str) -> None:
        """SIGKILL a node's server; supervisor starts it again."""
        os.kill(self.pid_of(f"node-{node}"), signal.SIGKILL)


def missing_program(cluster: ClusterOfKind) -> str:
    """Which program of the engine is not on this machine; empty when all are."""
    if cluster.kind.backend not in names():
        return "there is no such backend"
    try:
        backend_of(cluster.cluster).check(cluster.cluster, cluster.installation)
    except OperatorError as error:
        if error.exit_code != ExitCode.NOT_INSTALLED:
            raise
        return " ".join([error.notice, error.hint]).strip()
    return ""
