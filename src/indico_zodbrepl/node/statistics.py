"""What a database holds, summed by the program of the data plane that reads any storage."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..backends import backend_of
from ..cluster import Cluster, Node, Role
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..cluster.layout import Layout, data_fs
from ..errors import ExitCode, OperatorError
from . import state
from .run import node_named

PROGRAM = "indico_zodbrepl.dataplane.stats"
SILENCE_SECONDS = 120.0  # longer than a server may take to answer, or to be missed
# The program's exit status: no such file, a damaged one, the storage is away, changed meanwhile.
EXIT_CODES = {3: ExitCode.FAILED, 4: ExitCode.REFUSED, 6: ExitCode.NOT_RUNNING}
INTERRUPTED = 130
HISTORY = {"counted": "", "not counted": "older states were not read",
           "not kept": "the storage keeps no older states"}
"""What a walk says of older states, in words where they were not counted."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a database is read.

    Attributes:
        kind: ``file`` for a Data.fs, ``storage`` for the zodb.conf of a storage.
        path: of that file.
        node: whose copy it is; None for the storage that Indico uses.
    """

    kind: str
    path: Path
    node: str | None


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a walk is.

    Attributes:
        done: bytes of a file, objects of a storage.
        total: the same; None while it is not known.
        records: that were read, older states among them.
    """

    done: int
    total: int | None
    records: int


def source(cluster: Cluster, name: str | None) -> Source:
    """Where to read a node's copy of the database, or, without a name, Indico's.

    A Data.fs on this host is read itself, whether its server runs or not: that is quicker by far
    and burdens no server.  Raises OperatorError: exit 2 when the node has no copy that can be read
    by itself, 6 when nothing was started yet.
    """
    backend = backend_of(cluster)
    node = node_named(cluster, name) if name else _primary(cluster)
    if backend.data_files and node is not None and data_fs(node).exists():
        return Source("file", data_fs(node), node.name)
    if name is None or node is None:
        return _configured(cluster, Layout(cluster).zodb_conf, None)
    readable = [each.name for each in backend.readable_nodes(cluster)]
    if node.name not in readable:
        raise OperatorError(
            f"node {node.name} can't be read by itself",
            f"nodes that can: {', '.join(readable) or 'none'}",
            f"without --node the whole database is read: "
            f"{Commands.here(cluster).zodbrepl('stats')}", ExitCode.BAD_CONFIG)
    return _configured(cluster, Layout(cluster).node_zodb_conf(node), node.name)


def _primary(cluster: Cluster) -> Node | None:
    states = state.readable(cluster) or {
        node.name: state.initial(cluster, node) for node in cluster.nodes}
    primaries = [each for each in states.values() if each.role is Role.PRIMARY]
    if not primaries:
        return None
    return node_named(cluster, max(primaries, key=lambda each: each.epoch).node)


def _configured(cluster: Cluster, path: Path, node: str | None) -> Source:
    if not path.exists():
        raise OperatorError("there is no database yet", f"{path} is written by `up`",
                            Commands.here(cluster).zodbrepl("up"), ExitCode.NOT_RUNNING)
    return Source("storage", path, node)


def statistics(installation: Installation, where: Source, top: int, *, history: bool = True,
               on_progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Read the whole database and sum it; see ``docs/reference`` for what is told.

    It takes as long as it takes; a storage that says nothing for two minutes ends it.

    Args:
        installation: where Python 2.7 is.
        where: what to read.
        top: how many of the largest objects to tell.
        history: of a storage, whether older states are read too.
        on_progress: called about twice a second, in this thread.

    Raises OperatorError; KeyboardInterrupt ends the program that reads.
    """
    command = [str(installation.python27), "-m", PROGRAM, where.kind, str(where.path),
               "--top", str(top), *([] if history else ["--no-history"])]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output, _started(
            command, output, installation) as process:
        said = ""
        try:
            for line in _lines(process):
                if not line.startswith("{"):
                    said = line
                elif on_progress is not None:
                    on_progress(Progress(**json.loads(line)))
            process.wait()
        finally:
            process.kill()
        if process.returncode == INTERRUPTED:
            raise KeyboardInterrupt
        if process.returncode:
            raise _failure(said or f"exit status {process.returncode}",
                           EXIT_CODES.get(process.returncode, ExitCode.FAILED))
        output.seek(0)
        answer: dict[str, Any] = json.load(output)
    return answer


def _started(command: list[str], output: Any,
             installation: Installation) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE,
            env=installation.environment27(ZODBREPL_HOME=str(installation.home)))
    except OSError as error:
        raise _failure(f"{command[0]}: {error.strerror}", ExitCode.NOT_INSTALLED) from error


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """What the program says until it ends; OperatorError (exit 7) when it goes silent."""
    assert process.stderr is not None  # noqa: S101  # for the type checker
    pending = b""
    while True:
        if not select.select([process.stderr], [], [], SILENCE_SECONDS)[0]:
            raise _failure(f"the storage said nothing for {SILENCE_SECONDS:g} seconds",
                           ExitCode.TIMED_OUT)
        part = os.read(process.stderr.fileno(), 65536)
        if not part:
            break
        *whole, pending = (pending + part).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)


def _failure(detail: str, exit_code: ExitCode) -> OperatorError:
    return OperatorError("the database can't be read", detail, exit_code=exit_code)
