"""All programs of a cluster on this host: up and down.

Both take the cluster's lock, so that two of them never work at once, and both may be
repeated: ``up`` starts what doesn't run, ``down`` ends what does.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping

from ..backends import backend_of
from ..cluster import Cluster, Endpoint, Node, NodeState, check_site_conf
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError
from . import admission, daemon, generated, ports, readiness, run, state
from .files import write_all
from .locking import exclusive
from .supervised import STARTED, Progress, Stage, end, ignore, start, wait_for_end
from .supervisor import Supervisor

UP_SECONDS = 180.0
DOWN_SECONDS = 120.0


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
            incomplete; exit 5, a port is taken, and nothing was started; exit 8,
            var-directory can't be used, or a node refused to start, or its state file or data
            directory can't be used: everything else is up then, so that pages are served;
            exit 7, time ran out; exit 1, a program died, with the end of its log.  Programs
            that were started stay.
    """
    deadline = time.monotonic() + seconds
    installation.check()
    check_site_conf(cluster)
    generated.make_directories(cluster)
    with exclusive(Layout(cluster).lock, seconds, progress):
        states, failures = _prepare(cluster)
        running = _running(cluster, deadline) if daemon.is_running(cluster) else None
        missing = [name for name in cluster.program_names()
                   if name not in (running or ()) and name not in failures]
        ports.check_free(cluster, [endpoint for endpoint in needed(cluster, states)
                                   if program_of(cluster, endpoint) in missing])
        write_all(generated.cluster_files(cluster, installation))
        if running is None:
            daemon.start(cluster, installation)
            progress("supervisord is up")
        else:
            changed = _adopt_changes(cluster, deadline, progress)
            missing = [name for name in changed if name not in failures] + missing
        _found(cluster, states, progress)
        started = []
        for stage in _stages(cluster, states):
            done = start(cluster, stage, missing, deadline, progress)
            started += done.programs
            failures |= done.failures
    if failures:
        raise _partly_up(failures)
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
            ended += end(cluster, stage, deadline, progress)
        ended += end(cluster, list(Supervisor(cluster).states()), deadline, progress)
        daemon.end(cluster)
        progress("supervisord ended")
        _refuse_orphans(cluster)
        return ended


def needed(cluster: Cluster, states: Mapping[str, NodeState]) -> list[Endpoint]:
    """What the cluster listens on when its nodes are in these states; others don't run."""
    backend = backend_of(cluster)
    return [*(endpoint for node in cluster.nodes if node.name in states
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


def _prepare(cluster: Cluster) -> tuple[dict[str, NodeState], dict[str, OperatorError]]:
    """The nodes' states, and by program why other nodes can't be started.

    Raises the first reason when no node can.
    """
    states, failures = {}, {}
    for node in cluster.nodes:
        try:
            states[node.name] = run.prepare(cluster, node)
        except OperatorError as error:
            failures[node.program] = error
    if not states:
        raise next(iter(failures.values()))
    return states, failures


def _found(cluster: Cluster, states: Mapping[str, NodeState], progress: Progress) -> None:
    raised = admission.found(cluster, states)
    for keeper, problem in (raised.failed if raised else {}).items():
        progress(f"{keeper} has no record of the epoch: {problem}")


def _partly_up(failures: Mapping[str, OperatorError]) -> OperatorError:
    """What is to be known when everything but some programs is up."""
    errors = list(failures.values())
    refused = any(error.exit_code is ExitCode.REFUSED for error in errors)
    rest = f"everything but {', '.join(failures)} is up"
    if len(errors) == 1:
        return OperatorError(errors[0].notice, f"{errors[0].detail}\n{rest}", errors[0].hint,
                             errors[0].exit_code)
    return OperatorError(f"{len(errors)} programs did not start",
                         "\n".join([*(f"{error.notice}\n{error.detail}" for error in errors),
                                    rest]),
                         "\n      ".join(error.hint for error in errors),
                         ExitCode.REFUSED if refused else ExitCode.FAILED)


def _stages(cluster: Cluster, states: Mapping[str, NodeState]) -> list[Stage]:
    endpoints = needed(cluster, states)

    def listens(program: str) -> Callable[[], str | None]:
        own = tuple(e for e in endpoints if program_of(cluster, e) == program)
        return functools.partial(readiness.listening, own)

    return [[(node.program, listens(node.program)) for node in cluster.nodes
             if node.name in states],
            [(instance.program, functools.partial(readiness.indico_answers, instance))
             for instance in cluster.indico],
            [(program, listens(program)) for program in _lookouts(cluster)]]


def _lookouts(cluster: Cluster) -> list[str]:
    """The programs that only look on: the last to start, the first to end."""
    return [cluster.admin.program, *([cluster.watch.program] if cluster.watch else [])]


def _running(cluster: Cluster, deadline: float) -> set[str]:
    """What runs, after what an interrupted ``down`` was ending has ended."""
    states = Supervisor(cluster).states()
    for name, program in states.items():
        if program.state == "STOPPING":
            wait_for_end(cluster, name, deadline)
    return {name for name, program in states.items() if program.state in STARTED}


def _adopt_changes(cluster: Cluster, deadline: float, progress: Progress) -> list[str]:
    """Make a running supervisord know the programs of the present cluster.conf."""
    supervisor = Supervisor(cluster)
    added, changed, removed = supervisor.reload()
    for program in [*changed, *removed]:
        end(cluster, [program], deadline, progress)
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
