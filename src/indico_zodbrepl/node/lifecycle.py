"""All programs of a cluster on this host: up and down.

Both take the cluster's lock, so that two of them never work at once, and both may be
repeated: ``up`` starts what doesn't run, ``down`` ends what does.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable

from ..backends import backend_of
from ..cluster import Cluster, Endpoint, Node, NodeState, check_site_conf
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError
from . import daemon, generated, ports, readiness, run, state
from .files import write_all
from .locking import exclusive
from .supervisor import Supervisor

UP_SECONDS = 180.0
DOWN_SECONDS = 120.0
RUNNING_SECONDS = 15.0  # for a program that ran already, perhaps restarted just now
POLL_SECONDS = 0.1
ENDED = ("STOPPED", "EXITED", "FATAL", "UNKNOWN")
STARTED = ("RUNNING", "STARTING")

Progress = Callable[[str], None]
Stage = list[tuple[str, Callable[[], str | None]]]


def ignore(_step: str) -> None:
    """Progress that nobody looks at."""


def up(cluster: Cluster, installation: Installation, progress: Progress = ignore,
       seconds: float = UP_SECONDS) -> list[str]:
    """Start what doesn't run: storage nodes, then Indico, then the admin page.

    Args:
        progress: called with each step, one line.
        seconds: time limit for all of it.

    Returns:
        The names of the programs that were started.  All programs listen now, Indico
        answers.

    Raises:
        OperatorError: exit 2, site-conf can't be read; exit 4, the installation is
            incomplete; exit 5, a port is taken, and nothing was started; exit 8, a
            node's state file or data directory or var-directory can't be used; exit 7,
            time ran out; exit 1, a program died, with the end of its log.  Programs
            that were started stay.
    """
    deadline = time.monotonic() + seconds
    installation.check()
    check_site_conf(cluster)
    generated.make_directories(cluster)
    with exclusive(Layout(cluster).lock, seconds, progress):
        states = {node.name: run.prepare(cluster, node) for node in cluster.nodes}
        running = _running(cluster, deadline) if daemon.is_running(cluster) else None
        missing = [name for name in cluster.program_names() if name not in (running or ())]
        ports.check_free(cluster, [endpoint for endpoint in needed(cluster, states)
                                   if program_of(cluster, endpoint) in missing])
        write_all(generated.cluster_files(cluster, installation))
        if running is None:
            daemon.start(cluster, installation)
            progress("supervisord is up")
        else:
            missing = _adopt_changes(cluster, deadline, progress) + missing
        started = []
        for stage in _stages(cluster, states):
            started += _start(cluster, stage, missing, deadline, progress)
        return started


def down(cluster: Cluster, progress: Progress = ignore,
         seconds: float = DOWN_SECONDS) -> list[str]:
    """End the admin page and Indico, then the primary, which drains, then its followers.

    Args:
        progress: called with each step, one line.
        seconds: time limit for all of it.

    Returns:
        The names of the programs that were ended; empty when nothing ran.

    Raises:
        OperatorError: exit 7, something did not end in time, or supervisord is frozen;
            exit 1, programs are left of a supervisord that was killed.
    """
    deadline = time.monotonic() + seconds
    if not Layout(cluster).run.is_dir():
        return []
    with exclusive(Layout(cluster).lock, seconds, progress):
        if not daemon.is_running(cluster):
            _refuse_orphans(cluster)
            return []
        ended = []
        for stage in _ending_stages(cluster):
            ended += _end(cluster, stage, deadline, progress)
        ended += _end(cluster, list(Supervisor(cluster).states()), deadline, progress)
        daemon.end(cluster)
        progress("supervisord ended")
        _refuse_orphans(cluster)
        return ended


def needed(cluster: Cluster, states: dict[str, NodeState]) -> list[Endpoint]:
    """What the cluster listens on when its nodes are in these states."""
    backend = backend_of(cluster)
    return [*(endpoint for node in cluster.nodes
              for endpoint in backend.listens_on(cluster, states[node.name])),
            *(endpoint for endpoint in cluster.endpoints() if endpoint.kind != "node")]


def program_of(cluster: Cluster, endpoint: Endpoint) -> str:
    """The program that listens on an endpoint."""
    named = {("node", node.name): node.program for node in cluster.nodes}
    named |= {("indico", instance.name): instance.program for instance in cluster.indico}
    if cluster.watch:
        named[("watch", "")] = cluster.watch.program
    return named.get((endpoint.kind, endpoint.name or ""), cluster.admin.program)


def drain_order(nodes: Iterable[Node], upstreams: dict[str, str | None]) -> list[Node]:
    """Nodes in the order in which they end: each before those that follow it.

    A node sends what its followers lack before it ends, so they have to be there.
    """
    def depth(name: str) -> int:
        seen: list[str] = []
        upstream = upstreams[name]
        while upstream is not None and upstream in upstreams and upstream not in seen:
            seen.append(upstream)
            upstream = upstreams[upstream]
        return len(seen)

    return sorted(nodes, key=lambda node: depth(node.name))


def _stages(cluster: Cluster, states: dict[str, NodeState]) -> list[Stage]:
    endpoints = needed(cluster, states)

    def listens(program: str) -> Callable[[], str | None]:
        own = tuple(e for e in endpoints if program_of(cluster, e) == program)
        return functools.partial(readiness.listening, own)

    return [[(node.program, listens(node.program)) for node in cluster.nodes],
            [(instance.program, functools.partial(readiness.indico_answers, instance))
             for instance in cluster.indico],
            [(program, listens(program)) for program in _lookouts(cluster)]]


def _lookouts(cluster: Cluster) -> list[str]:
    """The programs that only look on: the last to start, the first to end."""
    return [cluster.admin.program, *([cluster.watch.program] if cluster.watch else [])]


def _start(cluster: Cluster, stage: Stage, missing: list[str], deadline: float,
           progress: Progress) -> list[str]:
    """Start a stage's missing programs; those that ran already have to be ready too.

    One that isn't was started with another cluster.conf, or is out of order.
    """
    supervisor = Supervisor(cluster)
    started = [program for program, _ready in stage
               if program in missing and supervisor.start(program)]
    for program, ready in stage:
        patience = deadline if program in missing else min(
            deadline, time.monotonic() + RUNNING_SECONDS)
        readiness.wait_until_ready(cluster, program, ready, patience)
        if program in missing:
            progress(f"{program} is up")
    return started


def _running(cluster: Cluster, deadline: float) -> set[str]:
    """What runs, after what an interrupted ``down`` was ending has ended."""
    states = Supervisor(cluster).states()
    for name, program in states.items():
        if program.state == "STOPPING":
            _wait_for_end(cluster, name, deadline)
    return {name for name, program in states.items() if program.state in STARTED}


def _adopt_changes(cluster: Cluster, deadline: float, progress: Progress) -> list[str]:
    """Make a running supervisord know the programs of the present cluster.conf."""
    supervisor = Supervisor(cluster)
    added, changed, removed = supervisor.reload()
    for program in [*changed, *removed]:
        _end(cluster, [program], deadline, progress)
        supervisor.remove(program)
    for program in [*added, *changed]:
        supervisor.add(program)
    return changed


def _ending_stages(cluster: Cluster) -> list[list[str]]:
    upstreams = {node.name: _upstream(cluster, node) for node in cluster.nodes}
    return [[*_lookouts(cluster), *(instance.program for instance in cluster.indico)],
            *([node.program] for node in drain_order(cluster.nodes, upstreams))]


def _upstream(cluster: Cluster, node: Node) -> str | None:
    """What a node follows; what cluster.conf says when its state file can't be used.

    The state decides nothing but the order here, and everything has to end.
    """
    try:
        return state.current(cluster, node).upstream
    except OperatorError:
        return state.initial(cluster, node).upstream


def _end(cluster: Cluster, programs: list[str], deadline: float,
         progress: Progress) -> list[str]:
    supervisor = Supervisor(cluster)
    known = supervisor.states()
    ended = [program for program in programs
             if program in known and known[program].state not in ENDED]
    for program in ended:
        supervisor.stop(program)
    for program in ended:
        _wait_for_end(cluster, program, deadline)
        progress(f"{program} ended")
    return ended


def _wait_for_end(cluster: Cluster, program: str, deadline: float) -> None:
    supervisor = Supervisor(cluster)
    while supervisor.states()[program].state not in ENDED:
        if time.monotonic() > deadline:
            raise OperatorError(f"{program} did not end in time",
                                readiness.log_tail(cluster, program),
                                exit_code=ExitCode.TIMED_OUT)
        time.sleep(POLL_SECONDS)


def _refuse_orphans(cluster: Cluster) -> None:
    left = []
    for endpoint in cluster.endpoints():
        owner = ports.owner_of(endpoint.address)
        if owner and ports.is_of_cluster(owner, cluster) and owner.pid not in left:
            left.append(owner.pid)
    if left:
        raise OperatorError(
            "supervisord is not running, but programs it started are",
            f"processes {', '.join(map(str, left))}: left behind when it was killed",
            f"kill {' '.join(map(str, left))}")
