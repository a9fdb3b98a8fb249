"""Starting a node as the primary on an operator's word alone."""

from __future__ import annotations

import dataclasses
import time

from ..backends import backend_of
from ..cluster import Cluster, Forced, Node, NodeState, Role
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError
from ..probing.wire import ProbeError
from . import admission, changes, epochs, lineage, run, state
from .epochs import Raised
from .guard import Testimony
from .starts import START_SECONDS, start_node
from .supervised import Progress, ignore

ANSWER_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Forcing:
    """What a forced start changed besides the node: its new epoch and who has the record."""

    epoch: int
    seen: int
    raised: Raised


def force_start(cluster: Cluster, installation: Installation, name: str, *,
                reason: str, actor: str, progress: Progress = ignore,
                seconds: float = START_SECONDS) -> Forcing:
    """Start a node as the primary of a new epoch although nobody can vouch for it.

    The new epoch is above every one that can be seen and is written down everywhere; a
    primary that is out of sight has to be fenced by whoever forces this.

    Args:
        reason: why, for state file, records and journal.
        actor: login name of who takes the responsibility.

    Raises:
        OperatorError: as ``start_node``; exit 8 too when another server takes writes, and
            when the node's own server runs.
    """
    node = run.node_named(cluster, name)
    installation.check()
    own = run.prepare(cluster, node)
    seen, _testimonies = check(cluster, node, own)
    epoch = seen + 1
    claim = NodeState(cluster.name, name, Role.PRIMARY, None, epoch,
                      Forced(actor, reason, epochs.now()))
    admission.refuse_without_data(cluster, claim)
    lineage.enter_primary(cluster, claim)
    raised = epochs.raise_everywhere(cluster, epoch, name, f"forced by {actor}: {reason}")
    for remark in changes.silence_others(cluster, name, epoch):
        progress(remark)
    state.write(node, claim)
    start_node(cluster, installation, name, progress=progress, seconds=seconds)
    return Forcing(epoch, seen, raised)


def check(cluster: Cluster, node: Node, own: NodeState) -> tuple[int, list[Testimony]]:
    """Whether a forced start may begin; changes nothing.

    Returns the highest epoch that anybody knows, and what everybody said.  Raises OperatorError
    (exit 8) when the node runs or another server takes writes.
    """
    if answers(cluster, node):
        raise OperatorError(f"node {node.name} is running", f"something answers on "
                            f"{node.storage_address}", "fence or promote it instead",
                            ExitCode.REFUSED)
    seen, testimonies = admission.highest_epoch(cluster, node.name, own.epoch)
    _refuse_rival(cluster, node.name, testimonies)
    return seen, testimonies


def _refuse_rival(cluster: Cluster, name: str, testimonies: list[Testimony]) -> None:
    for each in testimonies:
        if each.writable and each.node != name:
            raise OperatorError(f"node {name} can't be forced",
                                f"{each.voucher} takes writes\n{admission.listed(testimonies)}",
                                "is that one wrong? then: "
                                + Commands.here(cluster).zodbrepl("node", "fence", each.node or ""),
                                ExitCode.REFUSED)


def answers(cluster: Cluster, node: Node) -> bool:
    """Whether anything answers where the node's server does."""
    try:
        backend_of(cluster).ask(cluster, node, time.monotonic() + ANSWER_SECONDS)
    except ProbeError:
        return False
    return True
