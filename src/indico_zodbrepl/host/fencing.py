"""Make sure that a node's server is gone, whatever state it is in."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.lookup import node_with_program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import daemon, ports
from indico_zodbrepl.host.interface import DryRun
from indico_zodbrepl.host.locking import take
from indico_zodbrepl.host.ports import Owner
from indico_zodbrepl.host.supervisor import Supervisor, SupervisorAwayError, SupervisorSilentError
from indico_zodbrepl.probing.process_state import FROZEN, state_of
from indico_zodbrepl.probing.waiting import wait_until

SUPERVISOR_SECONDS = 1.0
GONE_SECONDS = 5.0
POLL_SECONDS = 0.005


@dataclasses.dataclass(frozen=True)
class Fenced:
    """The result of fencing a node.

    Attributes:
        killed: process ids.
        remark: for the operator, one line; may be empty.
        was_wanted: True if supervisor kept it running until then, or if that is unknown.
    """

    killed: tuple[int, ...]
    remark: str
    was_wanted: bool


def fence(cluster: Cluster, node: Node) -> Fenced:
    """Kill a node's server at once, frozen or not, and prove that it is gone.

    While supervisor is told not to restart it, the server is frozen.  Otherwise supervisor would
    request a clean shutdown, and a server that is killed during that may have logged a shutdown
    that did not complete; MariaDB refuses to start then.  A frozen process cannot delay fencing for
    long, so the server's followers may miss its last transactions.

    Returns:
        What was done; nothing if the node does not run.  Its ports are closed, its processes are
        gone, and no process has its data file open, if it has one.

    Raises:
        OperatorError: exit 8, a process outside this cluster has the node's port or data; exit 7, a
            process does not exit although it was killed.
    """
    killed: list[int] = []
    frozen = _serving(cluster, node)
    freeze(frozen)
    try:
        was_wanted, remark = _stop_supervising(cluster, node)
    finally:
        for pid in frozen:
            _kill(pid, killed)
    supervised = _supervised(cluster, node)
    pids: set[int] = set()
    foreign: OperatorError | None = None

    def is_gone() -> bool:
        nonlocal pids, foreign
        foreign = None
        try:
            pids = _pids_of(cluster, node, supervised)
        except OperatorError as error:
            # The port of an exiting process may no longer be attributed to it.
            if not killed:
                raise
            foreign = error
            return False
        for pid in sorted(pids - set(killed)):
            _kill(pid, killed)
        return not pids and not is_held(node)

    if wait_until(is_gone, time.monotonic() + GONE_SECONDS, POLL_SECONDS):
        return Fenced(tuple(killed), remark, was_wanted)
    raise foreign or OperatorError(
        f"the server of node {node.name} is not gone",
        f"processes {', '.join(map(str, sorted(pids))) or 'unknown'}: killed, but there"
        + (f"; {data_fs(node)} is locked" if is_held(node) else ""),
        "if a disk hangs, cut the host off",
        ExitCode.TIMED_OUT,
    )


def is_running(cluster: Cluster, node: Node) -> bool:
    """Return True if a process has a node's data open, or listens on one of its ports."""
    return bool(_serving(cluster, node)) or is_listening(node)


def is_listening(node: Node) -> bool:
    """Return True if a process listens on one of a node's ports."""
    return any(map(ports.is_listening, {node.storage_address, node.link_address}))


def check(cluster: Cluster, _installation: Installation, name: str) -> DryRun:
    """Return whom ``fence`` would kill; change nothing.  Raises OperatorError as it does."""
    node = node_with_program(cluster, name)
    pids = sorted(_pids_of(cluster, node, _supervised(cluster, node)))
    who = f"process {', '.join(map(str, pids))}" if pids else "no process"
    ports = dict.fromkeys(map(str, (node.storage_address, node.link_address)))
    closed = f"{' and '.join(ports)} {'are' if len(ports) > 1 else 'is'} closed"
    free = node.data_directory if backend_of(cluster).fenced_by_folder else data_fs(node)
    return DryRun(
        (f"node {node.name} has {who}",),
        (
            f"tell supervisor not to run {node.program}",
            *([f"send SIGKILL to {who}"] if pids else []),
            f"prove that {closed} and no process uses {free}",
        ),
    )


def _kill(pid: int, killed: list[int]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)


def _stop_supervising(cluster: Cluster, node: Node) -> tuple[bool, str]:
    """Make supervisor not restart the node.

    Returns True if supervisor kept it running until then, and a problem, one line.
    """
    try:
        return Supervisor(cluster, SUPERVISOR_SECONDS).stop(node.program), ""
    except SupervisorAwayError:
        return True, ""
    except OperatorError as error:
        refused = (
            ", which the guard refuses once the epoch is raised"
            if backend_of(cluster).has_epochs
            else ""
        )
        return True, f"{error.notice}: it may start the server again{refused}"


def _supervised(cluster: Cluster, node: Node) -> int | None:
    """Return supervisor's process for the node, if known."""
    try:
        program = Supervisor(cluster, SUPERVISOR_SECONDS).states().get(node.program)
    except (SupervisorAwayError, SupervisorSilentError):
        return None
    return None if program is None else program.pid


def _pids_of(cluster: Cluster, node: Node, supervised: int | None) -> set[int]:
    """Return the live processes that are the node's server, or are about to become it."""
    pids = {supervised} if supervised is not None and daemon.is_alive(supervised) else set()
    pids |= _serving(cluster, node)
    listening = ports.listening()
    for address in (node.storage_address, node.link_address):
        if address.port not in listening:
            continue
        owner = ports.owner_of(address)
        if owner is None or not ports.is_of_cluster(owner, cluster):
            if ports.is_listening(address):
                raise _foreign(node, f"{address} is listened on by", owner)
            continue
        pids.add(owner.pid)
    return pids


def _serving(cluster: Cluster, node: Node) -> set[int]:
    """Return the processes that have the node's data open, as far as that can be found."""
    holder = _lock_holder(node)
    pids = set() if holder is None else {holder}
    if backend_of(cluster).fenced_by_folder:
        pids |= set(working_in(node.data_directory))
    return pids


def working_in(folder: Path) -> Iterator[int]:
    """Yield the server processes with their working directory in a folder; no login shells."""
    resolved = folder.resolve()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(FileNotFoundError, PermissionError, ProcessLookupError):
            directory = Path(os.readlink(f"/proc/{pid}/cwd"))
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if (
                directory.is_relative_to(resolved)
                and fields[0] != "Z"
                and fields[4] == "0"
                and pid != os.getpid()
            ):
                yield pid


def _lock_holder(node: Node) -> int | None:
    """Return the process that has the data file open."""
    held = look(node)
    if held.pid is not None and not held.is_node:
        raise _foreign(node, f"{data_fs(node)} is held by", Owner(held.pid, "", None))
    return held.pid


def _foreign(node: Node, what: str, owner: Owner | None) -> OperatorError:
    who = f"process {owner.pid} {owner.command}".strip() if owner else "a process of another user"
    return OperatorError(
        f"node {node.name} is not fenced",
        f"{what} {who}, which is no server of this cluster",
        "end it by hand",
        ExitCode.REFUSED,
    )


@dataclasses.dataclass(frozen=True)
class Held:
    """The process that has a data file open.

    Attributes:
        is_held: True if a process of this host has it open as its server.
        pid: that process, as written in the lock file; None if there is none or it is unknown.
        is_node: True if that process works in the node's data directory, as its server does.
    """

    is_held: bool
    pid: int | None = None
    is_node: bool = False


def is_held(node: Node) -> bool:
    """Return True if a process has the data file open as its server.  Raises OSError."""
    try:
        descriptor = os.open(path_of(node), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not take(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def held(node: Node) -> Iterator[None]:
    """Hold the lock that every FileStorage takes.

    Raises OperatorError (exit 8) if a process has the data file open.
    """
    descriptor = os.open(path_of(node), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not take(descriptor):
            raise OperatorError(
                f"a process has {data_fs(node)} open",
                f"process {look(node).pid or 'unknown'}",
                "stop it, then retry",
                ExitCode.REFUSED,
            )
        yield
    finally:
        os.close(descriptor)


def look(node: Node) -> Held:
    """Return which process has the data file open, if any.  Raises OSError."""
    try:
        pid = int(path_of(node).read_text().split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return Held(is_held(node))
    if not is_held(node):
        return Held(is_held=False)
    return Held(True, pid, _works_in(pid, node.data_directory))


def path_of(node: Node) -> Path:
    """Return the lock file, which a stopped server leaves, unlocked."""
    path = data_fs(node)
    return path.with_name(f"{path.name}.lock")


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(folder.resolve())
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has just gone; the lock goes with it
    except PermissionError:
        return False


FREEZE_SECONDS = 0.5
FREEZE_POLL_SECONDS = 0.002


def freeze(pids: Collection[int]) -> None:
    """Send SIGSTOP to processes, in order, and wait until each has stopped.

    The signal takes effect with a delay: a SIGTERM that arrives before a process has stopped still
    ends it.  Exited processes are skipped; one that does not stop within half a second, because its
    disk hangs, is not waited for.
    """
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + FREEZE_SECONDS
    wait_until(lambda: not any(map(_runs, pids)), deadline, FREEZE_POLL_SECONDS)


def _runs(pid: int) -> bool:
    state = state_of(pid)
    return bool(state) and state not in FROZEN
