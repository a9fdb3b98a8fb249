"""Programs that a killed supervisord has left running: find them, and replace or stop them.

They serve, but nothing restarts them.  Supervisor can't adopt a process that it has not started,
so each is stopped cleanly and started again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator, Mapping

from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.rendering import Program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import generated, ports, programs, run, stages, tunnel
from indico_zodbrepl.host.daemon import is_alive
from indico_zodbrepl.host.interface import Tell
from indico_zodbrepl.probing.waiting import wait_until

KILL_SECONDS = 5.0
"""Time for a process to vanish after SIGKILL."""


@dataclasses.dataclass(frozen=True)
class Orphan:
    """A process of one of the cluster's programs that supervisor does not know."""

    program: Program
    pid: int

    def __str__(self) -> str:
        return f"process {self.pid} of {self.program.name}"


def find(
    cluster: Cluster, installation: Installation, supervised: Collection[str] = ()
) -> dict[str, Orphan]:
    """Return the orphans by program, in the order of the programs.

    Args:
        supervised: the programs that supervisor runs now.

    A process is found if it listens and works in one of the cluster's folders.  Processes of other
    users are found by root only.
    """
    pids: dict[str, int] = {}
    for endpoint in (*cluster.own_endpoints(), *tunnel.endpoints(cluster)):
        name = stages.program_of(cluster, endpoint)
        if name in supervised or name in pids:
            continue
        owner = ports.owner_of(endpoint.address)
        if owner is not None and ports.is_of_cluster(owner, cluster):
            pids[name] = owner.pid
    return {
        program.name: Orphan(program, pids[program.name])
        for program in generated.programs(cluster, installation)
        if program.name in pids
    }


def replacement_order(
    cluster: Cluster, states: Mapping[str, NodeState], names: Collection[str]
) -> list[str]:
    """Return the programs in the order in which they are replaced: primaries last.

    Followers come first, those without followers of their own before their upstreams.
    """
    upstreams = {
        node.name: states[node.name].upstream if node.name in states else node.upstream
        for node in cluster.nodes
    }
    nodes = [node for node in stages.drain_order(cluster.nodes, upstreams) if node.has_program]
    leaders = [
        node.program
        for node in nodes
        if node.name in states and states[node.name].role is Role.PRIMARY
    ]
    followers = [node.program for node in reversed(nodes) if node.program not in leaders]
    rest = [name for name in names if name not in {*leaders, *followers}]
    return [name for name in (*followers, *rest, *leaders) if name in names]


def replace(
    cluster: Cluster,
    installation: Installation,
    states: Mapping[str, NodeState],
    orphans: Mapping[str, Orphan],
    *,
    deadline: float,
    progress: Tell,
) -> programs.Started:
    """Stop each orphan and start its program under supervisor, one after another.

    A node that would refuse to start keeps its process; the reason is among the failures.

    Args:
        states: of the nodes.
        deadline: on the clock of ``time.monotonic``.

    Raises OperatorError (exit 7) if one does not stop, or is not ready, in time.
    """
    entries = {entry[0]: entry for stage in stages.starting(cluster, states) for entry in stage}
    done = programs.Started([], {})
    for orphan, refusal in judged(cluster, installation, states, orphans):
        name = orphan.program.name
        if refusal is not None:
            done.failures[name] = _kept(orphan, refusal)
            progress(done.failures[name].notice)
            continue
        progress(f"replacing {orphan}, which a killed supervisord has left")
        stop(cluster, [orphan], deadline)
        started = programs.start(cluster, [entries[name]], [name], deadline, progress)
        done.programs.extend(started.programs)
        done.failures.update(started.failures)
    return done


def judged(
    cluster: Cluster,
    installation: Installation,
    states: Mapping[str, NodeState],
    orphans: Mapping[str, Orphan],
) -> Iterator[tuple[Orphan, OperatorError | None]]:
    """Yield the orphans in the order of ``replacement_order``, each with what its start refuses.

    Each is judged when the ones before it have been replaced.
    """
    nodes = {node.program: node.name for node in cluster.nodes}
    for name in replacement_order(cluster, states, list(orphans)):
        refusal = None
        try:
            if name in nodes:
                run.dry_run(cluster, installation, states[nodes[name]])
        except OperatorError as error:
            refusal = error
        yield orphans[name], refusal


def _kept(orphan: Orphan, error: OperatorError) -> OperatorError:
    return OperatorError(
        f"{orphan} was not replaced: its start would be refused",
        f"{error.notice}: {error.detail}",
        error.hint,
        error.exit_code,
    )


def stop(cluster: Cluster, orphans: Iterable[Orphan], deadline: float) -> None:
    """Stop processes as supervisor would: with their signal, and SIGKILL when their time is over.

    Args:
        orphans: processes that may stop at the same time.
        deadline: on the clock of ``time.monotonic``.

    Raises OperatorError (exit 7) if one is left.
    """
    orphans = list(orphans)
    began = time.monotonic()
    for orphan in orphans:
        with contextlib.suppress(ProcessLookupError):  # it has just exited
            os.kill(orphan.pid, signal.Signals[f"SIG{orphan.program.stop_signal}"])
    for orphan in orphans:
        patience = min(deadline, began + orphan.program.stop_seconds)
        if _has_ended(orphan, patience) or not ports.works_for(cluster, orphan.pid):
            continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(orphan.pid, signal.SIGKILL)  # supervisor gives each program a group
        if not _has_ended(orphan, time.monotonic() + KILL_SECONDS):
            raise OperatorError(
                f"{orphan} did not stop in time",
                "it was killed, and still exists",
                f"look at it: ps -fp {orphan.pid}",
                ExitCode.TIMED_OUT,
            )


def end(cluster: Cluster, orphans: Iterable[Orphan], deadline: float, progress: Tell) -> None:
    """Stop orphans, and report each.  Arguments and errors as of ``stop``."""
    orphans = list(orphans)
    stop(cluster, orphans, deadline)
    for orphan in orphans:
        progress(f"{orphan}, which a killed supervisord had left, ended")


def _has_ended(orphan: Orphan, deadline: float) -> bool:
    return wait_until(lambda: not is_alive(orphan.pid), deadline)
