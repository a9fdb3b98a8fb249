"""What each step of ``operations`` would check and do: told, and nothing changed.

Every function makes the checks of its step that only read, and raises OperatorError as the
step would; the steps' own docstrings say what for.
"""

from __future__ import annotations

import dataclasses

from ..backends import backend_of, engine_of
from ..cluster import Cluster, NodeState, Role
from ..cluster.installation import Installation
from ..cluster.layout import data_fs, state_file
from ..errors import ExitCode, OperatorError
from . import (
    admission,
    changes,
    epochs,
    fencing,
    following,
    forcing,
    lineage,
    operations,
    run,
    starts,
)
from .server_control import NoServerError, ServerControl, ServerStatus
from .supervised import STARTED
from .supervisor import Supervisor


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
    node = run.node_with_program(cluster, name)
    installation.check()
    if _runs(cluster, node.program):
        return Rehearsal((f"node {name} runs already",), ())
    present = run.foreseen(cluster, node)
    wanted = run.caught_up(cluster, node, present) if present.upstream else present
    found, steps = admissible(cluster, installation, wanted), []
    if wanted != present or not state_file(node).exists():
        steps.append(writes(cluster, wanted))
    endpoints = backend_of(cluster).listens_on(cluster, wanted)
    addresses = " and ".join(str(each.address) for each in endpoints)
    return Rehearsal((*found, f"node {name} does not run"),
                     (*steps, f"have supervisor start {node.program}", *enters(cluster, wanted),
                      f"wait until it listens on {addresses}, {starts.START_SECONDS:g} s at most"))


def force(cluster: Cluster, installation: Installation, name: str) -> Rehearsal:
    """See ``operations.force_start``."""
    node = run.node_named(cluster, name)
    installation.check()
    own = run.foreseen(cluster, node)
    seen, said = forcing.check(cluster, node, own)
    claim = NodeState(cluster.name, name, Role.PRIMARY, None, seen + 1)
    admission.refuse_without_data(cluster, claim)
    lineage.refuse_unfit(cluster, claim)
    return Rehearsal(
        (f"node {name} does not run", "no other server is seen to take writes",
         f"the highest epoch that anybody knows is {seen}:\n{admission.listed(said)}"),
        (f"note that node {name} may hold what nobody else has",
         f"{writes(cluster, claim)}, with who forced it and why",
         raises(cluster, name, claim.epoch),
         f"have supervisor start {node.program}, and wait until it listens"))


def stop(cluster: Cluster, _installation: Installation, name: str) -> Rehearsal:
    """See ``operations.stop_node``."""
    node = run.node_with_program(cluster, name)
    if not _runs(cluster, node.program):
        return Rehearsal((f"node {name} does not run",), ())
    hands_over = ": it hands its followers what they lack" if _guarded(cluster) else ""
    return Rehearsal((f"node {name} runs",),
                     (f"have supervisor end {node.program}{hands_over}",
                      f"wait until it has ended, {starts.STOP_SECONDS:g} s at most"))


def fence(cluster: Cluster, _installation: Installation, name: str) -> Rehearsal:
    """See ``operations.fence``."""
    node = run.node_with_program(cluster, name)
    pids = fencing.processes(cluster, node)
    ports = dict.fromkeys(map(str, (node.storage_address, node.link_address)))
    closed = f"{' and '.join(ports)} {'are' if len(ports) > 1 else 'is'} closed"
    free = (f"nobody has {data_fs(node)}" if backend_of(cluster).data_files
            else f"no process of it works in {node.data_directory}")
    who = f"process {', '.join(map(str, pids))}" if pids else ""
    return Rehearsal(
        (f"node {name} has {who}" if pids else f"node {name} has no process",),
        (f"tell supervisor not to run {node.program}", *([f"SIGKILL {who}"] if pids else []),
         f"see that {closed} and {free}"))


def assign(cluster: Cluster, _installation: Installation, name: str, *, role: Role,
           upstream: str | None, epoch: int) -> Rehearsal:
    """See ``operations.assign``."""
    node = run.node_named(cluster, name)
    present = run.foreseen(cluster, node)
    wanted = operations.check_assignment(cluster, present, role, upstream, epoch)
    return Rehearsal((_is(cluster, present), "nobody here knows a later epoch"),
                     (writes(cluster, wanted),))


def hold(cluster: Cluster, _installation: Installation, name: str, *,
         seconds: float) -> Rehearsal:
    """See ``operations.hold``."""
    status = _primary_status(cluster, name)
    return Rehearsal((_runs_as(name, status),),
                     (f"tell its server to let no commit begin for {seconds:g} s",
                      "wait until those under way have ended"))


def release(cluster: Cluster, _installation: Installation, name: str) -> Rehearsal:
    """See ``operations.release``."""
    status = ServerControl(run.node_named(cluster, name)).status()
    if status.held != "operator":
        return Rehearsal((f"{_runs_as(name, status)}, and no operator holds its commits",), ())
    return Rehearsal((_runs_as(name, status),), ("tell its server to let commits begin",))


def promote(cluster: Cluster, _installation: Installation, name: str, *, epoch: int) -> Rehearsal:
    """See ``operations.promote``."""
    node = run.node_named(cluster, name)
    present = run.foreseen(cluster, node)
    claim = changes.check_promotion(cluster, present, epoch)
    lineage.refuse_unfit(cluster, claim)
    objects = f"nobody objects to it as the primary of epoch {epoch}"
    if engine_of(cluster) is not None:
        return Rehearsal(
            (_is(cluster, present), objects),
            (raises(cluster, name, epoch), "fence every other node that may take writes",
             writes(cluster, claim), "have its server take writes, in place"))
    running = _status(cluster, name)
    return Rehearsal(
        (_is(cluster, present), objects),
        (f"note that node {name} may hold what nobody else has", raises(cluster, name, epoch),
         f"tell running primaries of older epochs, which take no commits from epoch {epoch} on",
         writes(cluster, claim),
         f"have its server become the primary in place, with followers at "
         f"{node.replication_address}" if running else f"start {node.program} as the primary"))


def follow(cluster: Cluster, installation: Installation, name: str, *, upstream: str,
           epoch: int) -> Rehearsal:
    """See ``operations.follow``."""
    node, above = run.node_named(cluster, name), run.node_named(cluster, upstream)
    present = run.foreseen(cluster, node)
    wanted = changes.check_following(cluster, present, upstream, epoch)
    if engine_of(cluster) is not None:
        return Rehearsal((_is(cluster, present),), (
            f"have supervisor end {node.program}", writes(cluster, wanted),
            f"have supervisor start {node.program}", *enters(cluster, wanted)))
    running = _status(cluster, name)
    in_place = running is not None and running.role in (wanted.role, "primary")
    return Rehearsal(
        (_is(cluster, present), *admissible(cluster, installation, wanted)),
        ("remember how far its history is that of its upstream", writes(cluster, wanted),
         f"have its server turn to {above.replication_address} in place" if in_place
         else f"start or restart {node.program}"))


def restart_client(cluster: Cluster, _installation: Installation, instance: str) -> Rehearsal:
    """See ``operations.restart_instance``."""
    program, limit = starts.instance_named(cluster, instance).program, starts.START_SECONDS
    runs = _runs(cluster, program)
    return Rehearsal((f"Indico instance {instance} {'runs' if runs else 'does not run'}",),
                     ("have a new worker take over from its old one; if that does not get ready, "
                      "restart it" if runs else f"have supervisor start {program}",
                      f"wait until it answers, {limit:g} s at most"))


def admissible(cluster: Cluster, installation: Installation, claim: NodeState) -> list[str]:
    """The checks before a node runs in a state; what is fine, a line each.

    Raises OperatorError as its program would.
    """
    if not _guarded(cluster):
        return [_is(cluster, claim)]
    lineage.refuse_unfit(cluster, claim)
    if claim.upstream is None:
        verdict, _said = admission.vouched(cluster, claim)
        vouchers = ", ".join(verdict.vouchers) or "nobody, but it was forced"
        return [_is(cluster, claim), f"who vouches for it: {vouchers}"]
    if not backend_of(cluster).data_files:
        return [_is(cluster, claim)]
    remarks = following.admit_follower(cluster, installation, claim, dry_run=True)
    return [_is(cluster, claim), *(remarks or [f"its history is that of node {claim.upstream}"])]


def enters(cluster: Cluster, claim: NodeState) -> list[str]:
    """What a node's program does before it becomes the server, as steps."""
    if not _guarded(cluster):
        return []
    if not backend_of(cluster).data_files:
        return [f"bring its data in line with node {claim.upstream}'s" if claim.upstream
                else raises(cluster, claim.node, claim.epoch)]
    if claim.upstream is None:
        return [f"note that node {claim.node} may hold what nobody else has",
                raises(cluster, claim.node, claim.epoch)]
    return ["remember how far its history is that of its upstream"]


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
    return backend_of(cluster).guarded


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
    status = ServerControl(run.node_named(cluster, name)).status()
    if status.role != Role.PRIMARY:
        raise OperatorError(f"node {name} can't be asked for that", f"it runs as {status.role}",
                            exit_code=ExitCode.REFUSED)
    return status
