"""What only an ended node of an engine has: found and exported by the data plane's program."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from ..backends import engine_of
from ..backends.interfaces import Engine
from ..cluster import Cluster, Node
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError

PROGRAM = "indico_zodbrepl.dataplane.engine_tail"
OPEN_SECONDS = 600.0  # a server that was killed recovers first
# The program's exit status.
OWN_UNREADABLE, OTHER_UNREADABLE, DIFFERS = 3, 4, 7


class UnreadableError(OperatorError):
    """The node's data can't be opened or read: what only it has can't be told."""


class DiffersError(OperatorError):
    """A transaction that both have differs, or what only the node has could not be exported."""


@dataclasses.dataclass(frozen=True)
class Tail:
    """What only a node has.

    Attributes:
        transactions: how many; all of them are exported.
        perhaps: of how many of these, without history, nobody can tell whether the other has them.
        common: the newest transaction that both have, 16 hex digits; None when there is none, or
            nobody looked.
        history: whether the database keeps history.
        needs_copy: as in ``Alone``.
    """

    transactions: int
    perhaps: int
    common: str | None
    history: bool
    needs_copy: str


def find(cluster: Cluster, installation: Installation, node: Node, upstream: Node, *,
         folder: Path, seconds: float) -> Tail:
    """Find what only an ended node has, and export it to a new folder if there is any.

    Raises:
        UnreadableError, DiffersError: exit 8, see there.
        OperatorError: exit 7, the upstream does not answer, or time ran out.
    """
    engine = required_engine(cluster)
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        try:
            alone = stack.enter_context(engine.open_alone(
                cluster, node, upstream, min(deadline, time.monotonic() + OPEN_SECONDS)))
        except OperatorError as error:
            if error.exit_code is not ExitCode.REFUSED:
                raise
            raise UnreadableError(error.notice, error.detail, error.hint,
                                  ExitCode.REFUSED) from error
        history = engine.keeps_history(cluster)
        if alone.conf is None or (alone.contained and not history):
            return Tail(0, 0, None, history, alone.needs_copy)
        told = _run(cluster, installation, node, upstream, conf=alone.conf, folder=folder,
                    deadline=deadline)
        return Tail(told["transactions"], told["perhaps"], told["common"], history,
                    alone.needs_copy)


def _run(cluster: Cluster, installation: Installation, node: Node, upstream: Node, *,
         conf: str, folder: Path, deadline: float) -> dict[str, Any]:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as own:  # of mode 0600
        own.write(conf)
        own.flush()
        try:
            done = subprocess.run(
                [installation.python27, "-m", PROGRAM, own.name,
                 Layout(cluster).node_zodb_conf(upstream), folder, "--named",
                 required_engine(cluster).data_folder(node)],
                capture_output=True, text=True, errors="replace", check=False,
                stdin=subprocess.DEVNULL, env=installation.environment27(),
                timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise OperatorError(f"what only node {node.name} has was not found in time", "",
                                exit_code=ExitCode.TIMED_OUT) from error
    if done.returncode == 0:
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
    detail = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    if done.returncode == OTHER_UNREADABLE:
        raise OperatorError(f"node {upstream.name} can't be read", detail,
                            exit_code=ExitCode.TIMED_OUT)
    if done.returncode == OWN_UNREADABLE:
        raise UnreadableError(f"the data of node {node.name} can't be read", detail,
                              exit_code=ExitCode.REFUSED)
    what = ("its history is another one" if done.returncode == DIFFERS
            else "what only it has could not be exported")
    raise DiffersError(f"node {node.name} can't join: {what}", detail,
                       exit_code=ExitCode.REFUSED)


def required_engine(cluster: Cluster) -> Engine:
    """The cluster's engine; OperatorError when it has none."""
    engine = engine_of(cluster)
    if engine is None:
        raise OperatorError(f"the backend {cluster.backend} has no such step",
                            "the operation was planned for another one")
    return engine
