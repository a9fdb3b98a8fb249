"""The steps that switchover and failover are put together from, each with its texts.  Pure."""

from __future__ import annotations

from pathlib import Path

from ..cluster import Cluster, NodeState
from ..cluster.commands import Commands
from ..node.datafs import Comparison
from ..node.following import says
from ..probing import tid
from .comparing import lost_count, transactions
from .steps import Step

HOLD_SECONDS = 20.0
"""A hold that nobody renews ends by itself: long enough to prove, short enough for users."""
SEAL_SECONDS = 120.0
"""The last hold, the longest there is.  Promotion, next, tells the old primary of the new epoch:
from then on it takes no writes for good, whatever happens to us."""
PROVE_SECONDS = 10.0
STOP_SECONDS = 40.0
START_SECONDS = 60.0
CHANGE_SECONDS = STOP_SECONDS + START_SECONDS
"""For a change of role: a server that can't be changed in place is ended and started."""
FOLLOW_SECONDS = 60.0
INDICO_SECONDS = 60.0
QUICK_SECONDS = 15.0
FENCE_SECONDS = 20.0
EXPORT_SECONDS = 600.0
RECOVER_SECONDS = 1200.0
"""A server that was killed recovers before it can be read, and ends in order afterwards."""


class Moves:
    """Makes steps.

    Args:
        cluster: the cluster they act on.
        commands: for what a person would type in their place.
    """

    def __init__(self, cluster: Cluster, commands: Commands) -> None:
        self._cluster = cluster
        self._commands = commands

    def hold(self, node: str) -> Step:
        return Step("hold", node, {"seconds": HOLD_SECONDS},
                    f"Hold writes on primary {node}",
                    "it runs as primary; commits under way finish",
                    f"release writes on {node}; after {HOLD_SECONDS:g} s it does so by itself",
                    self._node("hold", node), HOLD_SECONDS + QUICK_SECONDS, False)

    def prove(self, node: str, primary: str) -> Step:
        return Step("prove", node, {"primary": primary},
                    f"See that {node} has the very last transaction of {primary}",
                    f"same transaction id and same content, within {PROVE_SECONDS:g} s", "",
                    self._commands.zodbrepl("lineage", node, primary), PROVE_SECONDS, False)

    def seal(self, node: str) -> Step:
        return Step("seal", node, {"seconds": SEAL_SECONDS},
                    f"Keep {node} from taking writes until it ends",
                    "nothing was committed there since the first hold",
                    f"release writes on {node}",
                    self._node("hold", node, "--seconds", f"{SEAL_SECONDS:g}"), QUICK_SECONDS,
                    False)

    def fence(self, node: str) -> Step:
        return Step("fence", node, {}, f"Fence {node}: kill it, and let nobody start it",
                    "afterwards its process is gone and its ports are closed",
                    f"let supervisor start {node} again, if it ran",
                    self._node("fence", node), FENCE_SECONDS, False)

    def export_tail(self, node: str, against: str, folder: Path, found: Comparison,
                    fingerprint: str) -> Step:
        count = lost_count(found)
        what = transactions(count) if count else "nothing, as far as seen"
        after = found.common.tid if found.common else f"{tid.EMPTY:016x}"
        return Step("export-tail", node,
                    {"against": against, "folder": str(folder), "fingerprint": fingerprint,
                     "expected": count, "after": after, "detail": says(found, node, against)},
                    f"Export what only {node} has: {what}",
                    f"{node} has not changed since it was compared with {against}; else they are "
                    "compared again", "",
                    self._commands.zodbrepl("lineage", node, against, "--full"),
                    EXPORT_SECONDS, False, may_fail=True)

    def keep_tail(self, node: str, against: str, folder: Path, *, afterwards: bool) -> Step:
        """Of an engine whose ended node only a server of its own can read.

        Args:
            afterwards: once the cluster works again, which goes on without this if need be.
        """
        return Step("failover-keep-tail" if afterwards else "rejoin-keep-tail", node,
                    {"against": against, "folder": str(folder)},
                    f"Export what only {node} has, if there is any, to {folder}",
                    f"{node}'s data are opened by a server that nobody else reaches, and compared "
                    f"with {against}'s, transaction by transaction", "", "",
                    EXPORT_SECONDS + RECOVER_SECONDS, afterwards, may_fail=afterwards)

    def promote(self, node: str, epoch: int, reason: str) -> Step:
        told = ["--reason", reason] if reason else []
        return Step("promote", node, {"epoch": epoch, "reason": reason},
                    f"Promote {node} to primary in epoch {epoch}",
                    "nobody else takes writes; epoch records are raised first", "",
                    self._node("promote", node, "--epoch", str(epoch), *told),
                    CHANGE_SECONDS, True)

    def end(self, node: str) -> Step:
        return Step("end", node, {}, f"End primary {node} in order; nobody can save until the next "
                    "one is promoted",
                    "its followers get what they lack before it has ended", f"start {node} again",
                    self._node("stop", node), STOP_SECONDS, False)

    def prove_end(self, node: str, primary: str) -> Step:
        return Step("prove-end", node, {"primary": primary},
                    f"See that {node} has everything that {primary} had at its end",
                    f"by their positions in the log, within {PROVE_SECONDS:g} s", "",
                    self._commands.zodbrepl("status"), PROVE_SECONDS, False)

    def stop(self, node: str) -> Step:
        return Step("stop", node, {}, f"End {node}; its clients go over",
                    "it takes no writes any more", "", self._node("stop", node), STOP_SECONDS,
                    True)

    def turn(self, state: NodeState) -> Step:
        upstream = state.upstream or ""
        return Step("turn", state.node,
                    {"upstream": upstream, "epoch": state.epoch, "role": str(state.role)},
                    f"Turn {state.node} into a {state.role} of {upstream}; its clients go over",
                    "it takes no writes any more, and has nothing of its own", "",
                    self._follow(state), CHANGE_SECONDS, True)

    def follow(self, state: NodeState) -> Step:
        upstream = state.upstream or ""
        return Step("follow", state.node,
                    {"upstream": upstream, "epoch": state.epoch, "role": str(state.role)},
                    f"Let {state.node} follow {upstream} in epoch {state.epoch}",
                    "its server goes on serving reads", "",
                    self._follow(state), CHANGE_SECONDS, True, may_fail=True)

    def assign(self, state: NodeState) -> Step:
        upstream = ["--upstream", state.upstream] if state.upstream else []
        return Step("assign", state.node,
                    {"role": str(state.role), "upstream": state.upstream, "epoch": state.epoch},
                    f"Write into the state file of {state.node}: {state.role} of {state.upstream}",
                    "its server does not run", "",
                    self._node("assign", state.node, "--role", str(state.role), *upstream,
                               "--epoch", str(state.epoch)), QUICK_SECONDS, True, may_fail=True)

    def start(self, node: str) -> Step:
        return Step("start", node, {}, f"Start {node}",
                    "guard and lineage check of its start", "", self._node("start", node),
                    START_SECONDS, True, may_fail=True)

    def see_following(self, node: str, upstream: str) -> Step:
        return Step("see-following", node, {"upstream": upstream},
                    f"See {node} follow {upstream}", "linked, and nothing is missing", "",
                    self._commands.zodbrepl("status"), FOLLOW_SECONDS, True, may_fail=True)

    def see_writable(self, instance: str, primary: str) -> Step:
        return Step("see-writable", instance, {"primary": primary},
                    f"See Indico instance {instance} writable on {primary}",
                    "it becomes so by itself", "", self._commands.zodbrepl("status"),
                    INDICO_SECONDS, True, may_fail=True)

    def restart_client(self, instance: str) -> Step:
        return Step("restart-client", instance, {},
                    f"Restart Indico instance {instance}: it may remember what is lost",
                    "its persistent cache files are deleted; it can save again", "",
                    self._node("restart-client", instance), INDICO_SECONDS, True,
                    may_fail=True)

    def verify(self, primary: str, epoch: int) -> Step:
        return Step("verify", primary, {"epoch": epoch},
                    f"See all nodes in epoch {epoch}, and {primary} the only primary",
                    "each node's server, or its state file if it does not run", "",
                    self._commands.zodbrepl("status"), QUICK_SECONDS, True, may_fail=True)

    def _follow(self, state: NodeState) -> str:
        return self._node("follow", state.node, "--upstream", state.upstream or "", "--epoch",
                          str(state.epoch))

    def _node(self, *arguments: str) -> str:
        return self._commands.zodbrepl("node", *arguments)
