"""All programs of a cluster on this host: up and down.

Both take the cluster's lock, so they never run at the same time.  Both are idempotent: ``up``
starts what does not run, ``down`` stops what does.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import (
    Cluster,
    NodeState,
    Role,
    check_site_conf,
    formats,
)
from indico_zodbrepl.cluster.files import write_all
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import member
from indico_zodbrepl.host import (
    acknowledging,
    daemon,
    epochs,
    etcd_control,
    generated,
    guarded,
    orphans,
    precheck,
    readiness,
    releases,
    run,
    secrets,
    stages,
    startable,
    state,
    tunnel,
    tunnel_control,
)
from indico_zodbrepl.host.interface import HostAwayError, Tell, host_of, ignore
from indico_zodbrepl.host.locking import exclusive
from indico_zodbrepl.host.orphans import Orphan
from indico_zodbrepl.host.programs import STARTED, end, start, wait_for_end
from indico_zodbrepl.host.supervisor import Supervisor

UP_SECONDS = 180.0
STORAGE_SECONDS = 15.0
DOWN_SECONDS = 120.0
LEADERLESS_SECONDS = 3.0


def up(
    cluster: Cluster,
    installation: Installation,
    progress: Tell = ignore,
    seconds: float = UP_SECONDS,
) -> list[str]:
    """Start what does not run: storage nodes, then Indico, then the admin page.

    Args:
        progress: called with each step, one line.
        seconds: time limit for all of it.

    Returns:
        The names of the programs that were started.  All programs listen now, Indico answers.

    Raises:
        OperatorError: exit 2, site-conf or a password can't be read; exit 4, the installation is
            incomplete; exit 5, a port is taken, and nothing was started; exit 8,
            var-directory can't be used, or a conversion into the cluster has not ended, or a
            node refused to start, or its state file or data directory can't be used: everything
            else is up then, so that pages are served; exit 7, time ran out; exit 1, a program
            died, with the end of its log.  Programs that were started stay.
    """
    check(cluster, installation)
    return _up(cluster, installation, progress, seconds, cluster.program_names())


def check(cluster: Cluster, installation: Installation) -> None:
    """Raise as ``up`` does if it may not begin; change nothing."""
    state.refuse_unfinished(cluster)
    _check_installed(cluster, installation)


def up_storage(
    cluster: Cluster,
    installation: Installation,
    progress: Tell = ignore,
    seconds: float = UP_SECONDS,
) -> list[str]:
    """Start the storage nodes alone, as for a conversion; otherwise as ``up``."""
    _check_installed(cluster, installation)
    return _up(cluster, installation, progress, seconds, _storage(cluster))


def up_serving(
    cluster: Cluster,
    installation: Installation,
    progress: Tell = ignore,
    seconds: float = UP_SECONDS,
) -> list[str]:
    """Start the storage nodes, Indico and its scheduler, as for a benchmark; otherwise as ``up``.

    The admin page and the monitor need as much CPU to start as two storage nodes.
    """
    check(cluster, installation)
    instances = cluster.local.indico
    serving = [*_storage(cluster), *(name for each in instances for name in each.programs)]
    return _up(cluster, installation, progress, seconds, serving)


def _storage(cluster: Cluster) -> list[str]:
    return [
        *([tunnel.name(cluster)] if tunnel.runs_here(cluster) else []),
        *([etcd_control.NAME] if member.runs_here(cluster) else []),
        *stages.election(cluster),
        *(node.program for node in cluster.local.nodes if node.has_program),
    ]


def _check_installed(cluster: Cluster, installation: Installation) -> None:
    formats.refuse_newer(cluster)
    installation.check()
    backend_of(cluster).check(cluster, installation)
    tunnel_control.check(cluster)
    etcd_control.check(cluster)
    check_site_conf(cluster)
    secrets.check_mail_password(cluster)


def _up(
    cluster: Cluster,
    installation: Installation,
    progress: Tell,
    seconds: float,
    wanted: Collection[str],
) -> list[str]:
    deadline = time.monotonic() + seconds
    generated.make_directories(cluster)
    secrets.ensure_bench_secret(cluster)
    with exclusive(Layout(cluster).lock, seconds, progress):
        states, failures = startable.states(cluster, run.prepare)
        running, left, missing = _to_start(
            cluster, installation, states, wanted, deadline=deadline, progress=progress
        )
        files = generated.cluster_files(cluster, installation)
        outdated = generated.to_restart(cluster, files, running or ())
        write_all(files)
        releases.record(cluster)
        if running is None:
            daemon.start(cluster, installation)
            progress("supervisord is up")
        else:
            changed = _adopt_changes(cluster, deadline, progress)
            missing = [name for name in changed if name not in failures] + missing
            for instance in outdated:
                if instance.program not in changed:
                    progress(startable.with_former_settings(cluster, instance))
        connected = tunnel_control.start(
            cluster,
            [entry for entry in stages.connecting(cluster) if entry[0] not in left],
            missing,
            deadline,
            progress,
        )
        failures |= connected.failures
        electing = [
            entry
            for entry in stages.electing(cluster)
            if entry[0] in wanted and entry[0] not in left
        ]
        elected = etcd_control.start(cluster, electing, missing, deadline, progress)
        failures |= elected.failures
        _found(cluster, states, progress)
        replaced = orphans.replace(
            cluster, installation, states, left, deadline=deadline, progress=progress
        )
        failures |= replaced.failures
        _connecting, _electing, election, nodes, *rest = [
            [
                (name, ready)
                for name, ready in stage
                if name in wanted and name not in replaced.failures
            ]
            for stage in stages.starting(cluster, states)
        ]
        started = connected.programs + elected.programs + replaced.programs
        for stage in (election, nodes):
            done = start(cluster, stage, missing, deadline, progress)
            started += done.programs
            failures |= done.failures
        leaderless = _is_leaderless(cluster, states, failures) or _primary_is_away(cluster)
        patience = min(deadline, time.monotonic() + LEADERLESS_SECONDS) if leaderless else deadline
        try:
            promising = _promising(cluster, states)
            backend_of(cluster).found(promising, installation, progress, patience)
        except OperatorError as error:
            if not failures and not cluster.hosts:
                raise
            if not failures or not leaderless:  # else it only says so again
                failures["the storage"] = error
        for stage in rest:
            done = start(cluster, stage, missing, deadline, progress)
            started += done.programs
            failures |= done.failures
        _leave_to_automation(cluster, states, failures, progress)
        if not failures:
            _see_storage(cluster, started, deadline, progress)
    if failures:
        raise _partly_up(failures)
    return started


def _to_start(
    cluster: Cluster,
    installation: Installation,
    states: Mapping[str, NodeState],
    wanted: Collection[str],
    *,
    deadline: float,
    progress: Tell,
) -> tuple[set[str] | None, dict[str, Orphan], list[str]]:
    """Return the running programs, those that supervisord lost, and those to start.

    The first is None without supervisord.  A member of etcd that the agent restarts just now is
    waited for: it would not run, and have its ports.
    """
    with etcd_control.left_alone(cluster, deadline, progress):
        running = _running(cluster, deadline) if daemon.is_running(cluster) else None
        if running is not None:  # before its primary reads of nodes that were added
            acknowledging.expect_nodes(cluster, progress)
        left = orphans.find(cluster, installation, running or ())
        return running, left, startable.missing(cluster, states, [*(running or ()), *left], wanted)


def _leave_to_automation(
    cluster: Cluster,
    states: Mapping[str, NodeState],
    failures: dict[str, OperatorError],
    progress: Tell,
) -> None:
    """Take former primaries off the failures: the automation rejoins and starts them."""
    for node in cluster.local.nodes if cluster.automatic else ():
        claim = states.get(node.name)
        if node.program in failures and claim and precheck.is_superseded(cluster, claim):
            del failures[node.program]
            progress(
                f"{node.program} waits: it was the primary of epoch {claim.epoch}; the automation "
                "rejoins it"
            )


def _primary_is_away(cluster: Cluster) -> bool:
    """Return True if the agent of the recorded primary's host does not answer.

    This host then serves what it can, such as the admin page.
    """
    asks = cluster.hosts and backend_of(cluster).clients_need_writer
    record = epochs.newest(cluster) if asks else None
    hosts = {node.name: node.on for node in cluster.nodes}
    host = hosts.get(record.primary) if record else None
    if host in (None, cluster.here):
        return False
    try:
        host_of(cluster).identity(host)
    except HostAwayError:
        return True
    return False


def _is_leaderless(
    cluster: Cluster, states: Mapping[str, NodeState], failures: Mapping[str, OperatorError]
) -> bool:
    """Return True if no node that could accept writes has started."""
    leaders = [
        node
        for node in cluster.nodes
        if node.name not in states or states[node.name].role in (Role.PRIMARY, Role.MASTER)
    ]
    return all(node.program in failures for node in leaders)


def _see_storage(cluster: Cluster, started: Iterable[str], deadline: float, progress: Tell) -> None:
    """Give started Indico instances a moment to reach the storage; pages need it."""
    deadline = min(deadline, time.monotonic() + STORAGE_SECONDS)
    for instance in cluster.local.indico:
        if instance.program in started and not readiness.reaches_storage(instance, deadline):
            progress(f"{instance.program} has no storage yet; it goes on trying")


def down(
    cluster: Cluster,
    installation: Installation,
    progress: Tell = ignore,
    seconds: float = DOWN_SECONDS,
) -> list[str]:
    """Stop the admin page and Indico, then the primary, which drains, then its followers.

    Args:
        progress: called with each step, one line.
        seconds: time limit for all of it.

    Returns:
        The names of the programs that were ended; empty when nothing ran.

    Raises:
        OperatorError: exit 7, something did not end in time, or supervisord is frozen.
    """
    deadline = time.monotonic() + seconds
    if not Layout(cluster).run.is_dir():
        return []
    with exclusive(Layout(cluster).lock, seconds, progress):
        if not daemon.is_running(cluster):
            return _end_orphans(cluster, installation, (), deadline, progress)
        ended: list[str] = []
        for stage in stages.ending(cluster):
            ended += end(cluster, stage, deadline, progress)
        ended += end(cluster, list(Supervisor(cluster).states()), deadline, progress)
        daemon.end(cluster)
        progress("supervisord ended")
        return ended + _end_orphans(cluster, installation, ended, deadline, progress)


def _end_orphans(
    cluster: Cluster,
    installation: Installation,
    ended: Collection[str],
    deadline: float,
    progress: Tell,
) -> list[str]:
    left = orphans.find(cluster, installation, ended)
    for stage in stages.ending(cluster):
        orphans.end(cluster, [left[name] for name in stage if name in left], deadline, progress)
    return list(left)


def _promising(cluster: Cluster, states: Mapping[str, NodeState]) -> Cluster:
    """Return a cluster whose primary, if it is of this host, asks for no less than before."""
    for present in states.values():
        cluster = guarded.promised(cluster, present)
    return cluster


def _found(cluster: Cluster, states: Mapping[str, NodeState], progress: Tell) -> None:
    """Write down what other hosts have to know before a node starts."""
    acknowledging.expect_nodes(cluster, progress)
    raised = precheck.found(cluster, startable.everywhere(cluster, states))
    for keeper, problem in (raised.failed if raised else {}).items():
        progress(f"{keeper} has no record of the epoch: {problem}")


def _partly_up(failures: Mapping[str, OperatorError]) -> OperatorError:
    """Return the error for a cluster with programs that did not start."""
    errors = list(failures.values())
    refused = any(error.exit_code is ExitCode.REFUSED for error in errors)
    rest = f"everything but {', '.join(failures)} is up"
    if len(errors) == 1:
        return OperatorError(
            errors[0].notice, f"{errors[0].detail}\n{rest}", errors[0].hint, errors[0].exit_code
        )
    details = dict.fromkeys(f"{error.notice}\n{error.detail}" for error in errors)
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    return OperatorError(
        f"{len(errors)} programs did not start",
        "\n".join([*details, rest]),
        "\n      ".join(hints),
        ExitCode.REFUSED if refused else ExitCode.FAILED,
    )


def _running(cluster: Cluster, deadline: float) -> set[str]:
    """Return the running programs, after those of an interrupted ``down`` have stopped."""
    states = Supervisor(cluster).states()
    for name, program in states.items():
        if program.state == "STOPPING":
            wait_for_end(cluster, name, deadline)
    return {name for name, program in states.items() if program.state in STARTED}


def _adopt_changes(cluster: Cluster, deadline: float, progress: Tell) -> list[str]:
    """Make a running supervisord read the programs of the present cluster.conf."""
    supervisor = Supervisor(cluster)
    added, changed, removed = supervisor.reload()
    for program in [*changed, *removed]:
        end(cluster, [program], deadline, progress)
        supervisor.remove(program)
    for program in [*added, *changed]:
        supervisor.add(program)
    return changed
