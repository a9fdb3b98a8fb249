"""What each step of ``operations`` would check and do: told, and nothing changed.

Every function makes the checks of its step that only read, and raises OperatorError as the
step would; the steps' own docstrings say what for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from indico_zodbrepl.backends import Family, backend_of
from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs, state_file
from indico_zodbrepl.cluster.lookup import instance_named, node_named, node_with_program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    epochs,
    fencing,
    forcing,
    history,
    precheck,
    roles,
    run,
    state,
    verbs,
)
from indico_zodbrepl.host.programs import START_SECONDS, STARTED, STOP_SECONDS
from indico_zodbrepl.host.server_control import NoServerError, ServerControl, ServerStatus
from indico_zodbrepl.host.supervisor import Supervisor


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """A step that was not taken.

    Attributes:
        found: what was looked at and is fine, one line each.
        steps: what would be done, in this order, one line each; empty when nothing would be.
    """

    found: tuple[str, ...]
    steps: tuple[str, ...]


def start(cluster: Cluster, installation: Installation, name: str) -> Rehearsal:
    """See ``operations.start_node``; guard and lineage check are made as its server makes them."""
    node = node_with_program(cluster, name)
    installation.check()
    if _runs(cluster, node.program):
        return Rehearsal((f"node {name} runs already",), ())
    present = state.current(cluster, node)
    wanted = run.caught_up(cluster, node, present) if present.upstream else present
    found, steps = run.admissible(cluster, installation, wanted), []
    if wanted != present or not state_file(node).exists():
        steps.append(writes(cluster, wanted))
    endpoints = backend_of(cluster).listens_on(cluster, wanted)
    addresses = " and ".join(str(each.address) for each in endpoints)
    return Rehearsal(
        (*found, f"node {name} does not run"),
        (
            *steps,
            f"have supervisor start {node.program}",
            *enters(cluster, wanted),
            f"wait until it listens on {addresses}, {START_SECONDS:g} s at most",
        ),
    )


def force(cluster: Cluster, installation: Installation, name: str) -> Rehearsal:
    """See ``operations.force_start``."""
    node = node_named(cluster, name)
    installation.check()
    own = state.current(cluster, node)
    seen, said = forcing.check(cluster, node, own)
    claim = NodeState(cluster.name, name, Role.PRIMARY, None, seen + 1)
    precheck.refuse_without_data(cluster, claim)
    history.refuse_unfit(cluster, claim)
    return Rehearsal(
        (
            f"node {name} does not run",
            "no other server is seen to take writes",
            f"the highest epoch that anybody knows is {seen}:\n{precheck.listed(said)}",
        ),
        (
            f"note that node {name} may hold what nobody else has",
            f"{writes(cluster, claim)}, with who forced it and why",
            raises(cluster, name, claim.epoch),
            f"have supervisor start {node.program}, and wait until it listens",
        ),
    )


def stop(cluster: Cluster, _installation: Installation, name: str) -> Rehearsal:
    """See ``operations.stop_node``."""
    node = node_with_program(cluster, name)
    if not _runs(cluster, node.program):
        return Rehearsal((f"node {name} does not run",), ())
    hands_over = ": it hands its followers what they lack" if _guarded(cluster) else ""
    return Rehearsal(
        (f"node {name} runs",),
        (
            f"have supervisor end {node.program}{hands_over}",
            f"wait until it has ended, {STOP_SECONDS:g} s at most",
        ),
    )


def fence(cluster: Cluster, _installation: Installation, name: str) -> Rehearsal:
    """See ``operations.fence``."""
    node = node_with_program(cluster, name)
    pids = fencing.processes(cluster, node)
    ports = dict.fromkeys(map(str, (node.storage_address, node.link_address)))
    closed = f"{' and '.join(ports)} {'are' if len(ports) > 1 else 'is'} closed"
    free = (
        f"no process of it works in {node.data_directory}"
        if backend_of(cluster).fenced_by_folder
        else f"nobody has {data_fs(node)}"
    )
    who = f"process {', '.join(map(str, pids))}" if pids else ""
    return Rehearsal(
        (f"node {name} has {who}" if pids else f"node {name} has no process",),
        (
            f"tell supervisor not to run {node.program}",
            *([f"SIGKILL {who}"] if pids else []),
            f"see that {closed} and {free}",
        ),
    )


def assign(
    cluster: Cluster,
    _installation: Installation,
    name: str,
    *,
    role: Role,
    upstream: str | None,
    epoch: int,
) -> Rehearsal:
    """See ``operations.assign``."""
    node = node_named(cluster, name)
    present = state.current(cluster, node)
    wanted = verbs.check_assignment(cluster, present, role, upstream, epoch)
    return Rehearsal(
        (_is(cluster, present), "nobody here knows a later epoch"), (writes(cluster, wanted),)
    )


def hold(cluster: Cluster, _installation: Installation, name: str, *, seconds: float) -> Rehearsal:
    """See ``operations.hold``."""
    status = _primary_status(cluster, name)
    return Rehearsal(
        (_runs_as(name, status),),
        (
            f"tell its server to let no commit begin for {seconds:g} s",
            "wait until those under way have ended",
        ),
    )


def release(cluster: Cluster, _installation: Installation, name: str) -> Rehearsal:
    """See ``operations.release``."""
    status = ServerControl(node_named(cluster, name)).status()
    if status.held != "operator":
        return Rehearsal((f"{_runs_as(name, status)}, and no operator holds its commits",), ())
    return Rehearsal((_runs_as(name, status),), ("tell its server to let commits begin",))


def promote(cluster: Cluster, _installation: Installation, name: str, *, epoch: int) -> Rehearsal:
    """See ``operations.promote``."""
    node = node_named(cluster, name)
    present = state.current(cluster, node)
    claim = roles.check_promotion(cluster, present, epoch)
    history.refuse_unfit(cluster, claim)
    objects = f"nobody objects to it as the primary of epoch {epoch}"
    steps = _PROMOTIONS[backend_of(cluster).family](cluster, claim)
    return Rehearsal((_is(cluster, present), objects), steps)


def _zrs_promotion(cluster: Cluster, claim: NodeState) -> tuple[str, ...]:
    node = cluster.node(claim.node)
    return (
        f"note that node {node.name} may hold what nobody else has",
        raises(cluster, node.name, claim.epoch),
        f"tell running primaries of older epochs that epoch {claim.epoch} begins",
        writes(cluster, claim),
        f"have its server become the primary in place, with followers at {node.replication_address}"
        if _status(cluster, node.name)
        else f"start {node.program} as the primary",
    )


def _native_promotion(cluster: Cluster, claim: NodeState) -> tuple[str, ...]:
    return (
        raises(cluster, claim.node, claim.epoch),
        "fence every other node that may take writes",
        writes(cluster, claim),
        "have its server take writes, in place",
    )


_PROMOTIONS: dict[Family, Callable[[Cluster, NodeState], tuple[str, ...]]] = {
    Family.ZRS: _zrs_promotion,
    Family.NATIVE: _native_promotion,
}


def follow(
    cluster: Cluster, installation: Installation, name: str, *, upstream: str, epoch: int
) -> Rehearsal:
    """See ``operations.follow``."""
    present = state.current(cluster, node_named(cluster, name))
    node_named(cluster, upstream)
    wanted = roles.check_following(cluster, present, upstream, epoch)
    said, steps = _FOLLOWINGS[backend_of(cluster).family](cluster, installation, wanted)
    return Rehearsal((_is(cluster, present), *said), steps)


Said = tuple[Sequence[str], tuple[str, ...]]


def _zrs_following(cluster: Cluster, installation: Installation, wanted: NodeState) -> Said:
    node, above = cluster.node(wanted.node), cluster.node(wanted.upstream or "")
    running = _status(cluster, node.name)
    in_place = running is not None and running.role in (wanted.role, "primary")
    return run.admissible(cluster, installation, wanted), (
        "remember how far its history is that of its upstream",
        writes(cluster, wanted),
        f"have its server turn to {above.replication_address} in place"
        if in_place
        else f"start or restart {node.program}",
    )


def _native_following(cluster: Cluster, _installation: Installation, wanted: NodeState) -> Said:
    program = cluster.node(wanted.node).program
    return (), (
        f"have supervisor end {program}",
        writes(cluster, wanted),
        f"have supervisor start {program}",
        *enters(cluster, wanted),
    )


_FOLLOWINGS: dict[Family, Callable[[Cluster, Installation, NodeState], Said]] = {
    Family.ZRS: _zrs_following,
    Family.NATIVE: _native_following,
}


def restart_client(cluster: Cluster, _installation: Installation, instance: str) -> Rehearsal:
    """See ``operations.restart_instance``."""
    program, limit = instance_named(cluster, instance).program, START_SECONDS
    runs = _runs(cluster, program)
    return Rehearsal(
        (f"Indico instance {instance} {'runs' if runs else 'does not run'}",),
        (
            "have a new worker take over from its old one; if that does not get ready, restart it"
            if runs
            else f"have supervisor start {program}",
            f"wait until it answers, {limit:g} s at most",
        ),
    )


def enters(cluster: Cluster, claim: NodeState) -> list[str]:
    """Return what a node's program does before it becomes the server, as steps."""
    if not _guarded(cluster):
        return []
    if claim.upstream is not None:
        return [_JOINS[backend_of(cluster).family].format(upstream=claim.upstream)]
    noted = [each.format(node=claim.node) for each in _LEADS[backend_of(cluster).family]]
    return [*noted, raises(cluster, claim.node, claim.epoch)]


_LEADS = {
    Family.ZRS: ("note that node {node} may hold what nobody else has",),
    Family.NATIVE: (),
}
_JOINS = {
    Family.ZRS: "remember how far its history is that of its upstream",
    Family.NATIVE: "bring its data in line with node {upstream}'s",
}


def raises(cluster: Cluster, primary: str, epoch: int) -> str:
    """How the records are raised, as a step."""
    keepers = ", ".join(epochs.paths(cluster))
    return f"raise the records of {keepers} to epoch {epoch}, primary {primary}"


def writes(cluster: Cluster, claim: NodeState) -> str:
    """How a state file is written, as a step."""
    return f"write {state_file(cluster.node(claim.node))}: {_in_words(cluster, claim)}"


def _is(cluster: Cluster, state: NodeState) -> str:
    return f"node {state.node} is to be {_in_words(cluster, state)}"


def _in_words(cluster: Cluster, state: NodeState) -> str:
    epoch = f" in epoch {state.epoch}" if _guarded(cluster) else ""
    return f"{state.role}{epoch}" + (f", following {state.upstream}" if state.upstream else "")


def _guarded(cluster: Cluster) -> bool:
    return backend_of(cluster).has_epochs


def _runs_as(name: str, status: ServerStatus) -> str:
    return f"node {name} runs as {status.role} in epoch {status.epoch}"


def _runs(cluster: Cluster, program: str) -> bool:
    known = Supervisor(cluster).states().get(program)
    return known is not None and known.state in STARTED


def _status(cluster: Cluster, name: str) -> ServerStatus | None:
    try:
        return ServerControl(cluster.node(name)).status()
    except NoServerError:
        return None


def _primary_status(cluster: Cluster, name: str) -> ServerStatus:
    status = ServerControl(node_named(cluster, name)).status()
    if status.role != Role.PRIMARY:
        raise OperatorError(
            f"node {name} can't be asked for that",
            f"it runs as {status.role}",
            exit_code=ExitCode.REFUSED,
        )
    return status
