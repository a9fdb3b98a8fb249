"""The common part of PostgreSQL and MariaDB: servers that run here and replicate natively."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from indico_zodbrepl.backends.base import Defaults
from indico_zodbrepl.backends.interfaces import Family
from indico_zodbrepl.backends.relstorage import turn_clients
from indico_zodbrepl.cluster import Cluster, Endpoint, Node, NodeState
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.rendering import Program, zodbrepl_command
from indico_zodbrepl.cluster.settings import ServerSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.answers import ServerAnswer, ServerRole
from indico_zodbrepl.probing.waiting import wait_until, wait_while
from indico_zodbrepl.probing.wire import ProbeError

END_SECONDS = 120.0
ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.2
OUTPUT_LINES = 10


FINAL_EXITS = (
    0,
    ExitCode.BAD_CONFIG,
    ExitCode.NOT_INSTALLED,
    ExitCode.PORT_TAKEN,
    ExitCode.REFUSED,
)

# Seconds until one of the listening servers must accept writes.
PRIMARY_SECONDS = 30.0

Ask = Callable[[Cluster, Node, float], ServerAnswer]

# Of util-linux. A program with this prefix is killed when the thread that started it ends, also by
# SIGKILL. A change of user takes that back, so this comes after it.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")


class StandstillError(OperatorError):
    """A server that was started on a node's data does not answer, and does nothing."""


def never(_pid: int) -> bool:
    """Say of no process that it stands still."""
    return False


@contextlib.contextmanager
def serving(
    node: Node,
    command: Sequence[str | Path],
    folder: Path,
    answers: Callable[[float], object],
    deadline: float,
    *,
    environment: Mapping[str, str] | None = None,
    end: signal.Signals = signal.SIGTERM,
    tells: str = "",
    stands_still: Callable[[int], bool] = never,
) -> Iterator[None]:
    """Run a server until the ``with`` block ends; it answers before the block begins.

    Args:
        folder: its working directory, by which fencing finds it.
        answers: queries it, with a deadline of ``time.monotonic``; ProbeError or OSError: not yet.
        deadline: a moment of ``time.monotonic`` by which it must answer.
        environment: None for this program's.
        end: the signal for a clean shutdown; SIGKILL follows if that fails.
        tells: text in the output lines that explain a failed start.
        stands_still: says of its process that nothing is to be expected of it any more.

    Raises:
        StandstillError: exit 8, ``stands_still`` says so.
        OperatorError: exit 8, it exited, with its last lines; exit 7, it does not answer in time.
    """
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=environment,
            cwd=folder,
            start_new_session=True,
        ) as server,
    ):
        try:
            try:
                _wait(node, server, answers, deadline, stands_still)
            except OperatorError as error:
                raise type(error)(
                    error.notice,
                    "\n".join([error.detail, *_last_lines(said, tells)]),
                    exit_code=error.exit_code,
                ) from error
            yield
        finally:
            server.send_signal(end)
            try:
                server.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait(
    node: Node,
    server: subprocess.Popen[bytes],
    answers: Callable[[float], object],
    deadline: float,
    stands_still: Callable[[int], bool],
) -> None:
    def problem() -> ProbeError | OSError | None:
        try:
            answers(min(deadline, time.monotonic() + ANSWER_SECONDS))
        except (ProbeError, OSError) as error:
            if server.poll() is not None:
                raise OperatorError(
                    f"the data of node {node.name} can't be opened",
                    f"its server ended with exit {server.returncode}",
                    exit_code=ExitCode.REFUSED,
                ) from error
            if stands_still(server.pid):
                raise StandstillError(
                    f"the data of node {node.name} can't be opened",
                    f"its server does nothing: {error}",
                    exit_code=ExitCode.REFUSED,
                ) from error
            return error
        return None

    last = wait_while(problem, deadline, POLL_SECONDS)
    if last is not None:
        raise OperatorError(
            f"the data of node {node.name} could not be opened in time",
            str(last),
            exit_code=ExitCode.TIMED_OUT,
        ) from last


def _last_lines(said: IO[str], tells: str) -> list[str]:
    said.seek(0)
    return [line for line in said.read().splitlines() if tells in line][-OUTPUT_LINES:]


class NativeServers(Defaults):
    """The part of ``IBackend`` that is the same for PostgreSQL and MariaDB.

    Attributes:
        section: the engine's section of a cluster file.
        stop_seconds: time limit of a server's clean shutdown.
        stop_signal: the signal for that, for supervisor.
        own_users: names that the cluster's database user can't have.
    """

    family = Family.NATIVE
    has_epochs = True
    asks_passwords = True
    needs_guard = True
    leave_seconds: float
    section: str
    stop_seconds: int
    stop_signal: str
    own_users: Collection[str]

    def programs(
        self, cluster: Cluster, installation: Installation, node: Node
    ) -> tuple[Program, ...]:
        if not node.managed:
            return ()
        return (
            Program(
                name=node.program,
                command=zodbrepl_command(cluster, installation, "node", "run", node.name),
                directory=Layout(cluster).var,
                stop_seconds=self.stop_seconds,
                final_exits=FINAL_EXITS,
                stop_signal=self.stop_signal,
            ),
        )

    def readable_nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        return cluster.nodes

    def listens_on(self, cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        return tuple(
            endpoint
            for endpoint in cluster.endpoints()
            if endpoint.kind == "node" and endpoint.name == state.node
        )

    def direct_clients(self, cluster: Cluster, primary: Node) -> None:
        turn_clients(cluster, primary)

    def keeps_history(self, cluster: Cluster) -> bool:
        return settings(cluster).keep_history

    def refuse_names(self, cluster: Cluster) -> None:
        """Raise OperatorError (exit 2) for an invalid user or host."""
        user = settings(cluster).user
        if user in self.own_users:
            raise OperatorError(
                f"user {user} is the cluster's own",
                str(cluster.where(self.section, None, "user")),
                "choose another name",
                ExitCode.BAD_CONFIG,
            )
        for node in cluster.nodes:
            if ":" in node.host:
                raise OperatorError(
                    f"node {node.name} can't have the address {node.host}",
                    f"{cluster.where('node', node.name, 'host')}: RelStorage's list of servers "
                    "has no way to write an IPv6 address",
                    "use a host name",
                    ExitCode.BAD_CONFIG,
                )


def settings(cluster: Cluster) -> ServerSettings:
    """Return the engine's section or its defaults."""
    if not isinstance(cluster.settings, ServerSettings):
        raise TypeError(f"cluster {cluster.name} has no settings of database servers")
    return cluster.settings


def find_primary(cluster: Cluster, ask: Ask, engine: str, deadline: float) -> Node:
    """Return the node that accepts writes in the highest epoch of all servers.

    Waits for it until the deadline.  Raises OperatorError (exit 7) if there is none.
    """
    deadline = min(deadline, time.monotonic() + PRIMARY_SECONDS)
    problems: dict[str, str] = {}

    def newest() -> str:
        answers, found = ask_all(cluster, ask, deadline)
        problems.clear()
        problems.update(found)
        writable = {
            name: answer.replication
            for name, answer in answers.items()
            if answer.replication
            and answer.replication.role is ServerRole.PRIMARY
            and not answer.replication.read_only
        }
        return max(writable, key=lambda each: writable[each].epoch or 0, default="")

    name = wait_until(newest, deadline, POLL_SECONDS)
    if not name:
        raise OperatorError(
            f"no {engine} server takes writes",
            "\n".join(
                problems.get(node.name, f"node {node.name} takes no writes")
                for node in cluster.nodes
            ),
            exit_code=ExitCode.TIMED_OUT,
        )
    return cluster.node(name)


def ask_all(
    cluster: Cluster, ask: Ask, deadline: float
) -> tuple[dict[str, ServerAnswer], dict[str, str]]:
    """Return each server's report, and why others did not answer, by name."""
    answers, problems = {}, {}
    for node in cluster.nodes:
        try:
            answers[node.name] = ask(
                cluster, node, min(deadline, time.monotonic() + ANSWER_SECONDS)
            )
        except ProbeError as error:
            problems[node.name] = f"node {node.name}: {error.detail}"
    return answers, problems
