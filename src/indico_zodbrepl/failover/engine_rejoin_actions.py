"""The steps of a rejoin that only nodes have whose engine replicates by itself; see ``actions``."""

from __future__ import annotations

import filecmp
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from ..backends import backend_of
from ..cluster.files import sync_folder
from ..errors import ExitCode, OperatorError
from ..node import epochs, lineage, operations
from ..node.lineage import Condition, Lineage
from .actions import Context, Repeatable
from .comparing import transactions
from .contents import contents
from .engine_tails import DiffersError, Tail, UnreadableError, find, required_engine
from .steps import Figures, Step

KEEP_TAIL = "rejoin-keep-tail"


class KeepTail(Repeatable):
    """What only the ended node has is found and exported; the folder appears when complete.

    Where that can't be done, the node is marked, and starts in no role until it was done.
    """

    def check(self, _context: Context, step: Step) -> Figures | None:
        folder = Path(str(step.arguments["folder"]))
        if not folder.is_dir():
            return None
        kept = json.loads((folder / "tail.json").read_text("utf-8"))
        after = str(kept["after"])
        return {**_exported(folder, len(kept["transactions"])), "aside": True,
                "common": None if int(after, 16) == 0 else after}

    def do(self, context: Context, step: Step) -> Figures:
        cluster, node = context.cluster, context.cluster.node(step.subject)
        found = self.check(context, step)  # an earlier attempt completed it
        if found is not None:
            return found
        if not backend_of(cluster).has_data(cluster, node):
            context.say(f"{node.name} has no data")
            return {"lost_transactions": 0, "aside": False, "common": None}
        folder = Path(str(step.arguments["folder"]))
        try:
            tail = find(cluster, context.installation, node,
                        cluster.node(str(step.arguments["against"])), folder=folder,
                        seconds=step.seconds - 1.0)
        except (UnreadableError, DiffersError) as error:
            condition = (Condition.NEEDS_SEEDING if isinstance(error, UnreadableError)
                         else Condition.QUARANTINED)
            lineage.mark(node, context.plan.epoch, condition, f"{error.notice}: {error.detail}")
            raise OperatorError(f"node {node.name} could not join: {condition}",
                                f"{error.notice}: {error.detail}", error.hint,
                                ExitCode.REFUSED) from error
        return self._told(context, tail, folder)

    def _told(self, context: Context, tail: Tail, folder: Path) -> Figures:
        told: Figures = {"lost_transactions": 0}
        if tail.transactions:
            folder = _the_only_one(folder, context.say)
        if tail.needs_copy:
            context.say(f"it gets a new copy: {tail.needs_copy}")
        if tail.transactions:
            told = _exported(folder, tail.transactions)
            context.say(f"{transactions(tail.transactions)} exported")
            for what in contents(folder):
                context.say(what)
        if tail.transactions and not tail.history:
            context.say("without history only the last states of objects are there, and nobody "
                        f"can tell who changed them; the primary may have had {tail.perhaps} of "
                        f"the {transactions(tail.transactions)}")
            told = {**told, "perhaps": tail.perhaps}
        return {**told, "aside": bool(tail.transactions or tail.needs_copy),
                "common": tail.common}


class KeepAfterwards(KeepTail):
    """A failover's: the node whose tail was exported starts in no role before it rejoins."""

    def do(self, context: Context, step: Step) -> Figures:
        # An attempt that was interrupted may have left the server that it had started.
        operations.fence(context.cluster, step.subject)
        told = super().do(context, step)
        if not told["lost_transactions"]:
            return told
        lineage.mark(context.cluster.node(step.subject), context.plan.epoch, Condition.DIVERGED,
                     f"{transactions(int(str(told['lost_transactions'])))} only on node "
                     f"{step.subject}, exported to {told['exported_to']}")
        return {**told, "diverged": [step.subject]}


class PutAside(Repeatable):
    """The node's data get another name, if they hold what the primary lacks."""

    def do(self, context: Context, step: Step) -> Figures:
        if not context.results[(KEEP_TAIL, step.subject)]["aside"]:
            context.say("there is no need: all that it has the primary has")
            return {}
        return _put_aside(context, step)


class StartAnew(Repeatable):
    """The node starts as a follower: from what it has, or with a copy where that can't be.

    Where it can't, all that only it had was exported before, and its data are kept.
    """

    def do(self, context: Context, step: Step) -> Figures:
        try:
            self._start(context, step)
        except OperatorError as error:
            if error.exit_code is not ExitCode.REFUSED or Path(
                    str(step.arguments["folder"])).exists():
                raise
            context.say(f"{error.notice}: {error.detail}; it gets a new copy")
            operations.fence(context.cluster, step.subject)
            kept = _put_aside(context, step)
            self._start(context, step)
            return kept
        return {}

    def _start(self, context: Context, step: Step) -> None:
        operations.start_node(context.cluster, context.installation, step.subject,
                              progress=context.say, seconds=step.seconds / 2 - 1.0)


class Admit(Repeatable):
    """The lineage file says that the node may start, and with whom it was compared."""

    def do(self, context: Context, step: Step) -> Figures:
        common = context.results[(KEEP_TAIL, step.subject)]["common"]
        lineage.write(context.cluster.node(step.subject), Lineage(
            None if common is None else str(common), None, str(step.arguments["against"]),
            context.plan.epoch, was_writable=False, condition=Condition.OK, detail="",
            at=epochs.now()))
        return {"condition": str(Condition.OK)}


def _put_aside(context: Context, step: Step) -> Figures:
    node, target = context.cluster.node(step.subject), Path(str(step.arguments["folder"]))
    if not target.exists():
        try:
            required_engine(context.cluster).data_folder(node).rename(target)
            sync_folder(target.parent)
        except OSError as error:
            raise OperatorError(f"the data of node {node.name} can't be put aside",
                                f"{error.filename}: {error.strerror}") from error
    return {"kept_in": str(target)}


def _the_only_one(folder: Path, say: Callable[[str], None]) -> Path:
    """The folder, or an earlier one that holds the same; then this one is removed."""
    node = folder.name.rsplit("-", 2)[0]
    for other in sorted(folder.parent.glob(f"{node}-*")):
        if other != folder and all(
                (other / name).is_file() and filecmp.cmp(folder / name, other / name, shallow=False)
                for name in ("tail.fs", "tail.json")):
            shutil.rmtree(folder)
            say(f"the same was exported before, to {other}")
            return other
    return folder


def _exported(folder: Path, count: int) -> Figures:
    return {"lost_transactions": count, "exported_to": str(folder),
            "exported_objects": [*contents(folder)]}


KEEP, KEEP_AFTERWARDS, ASIDE = KeepTail(), KeepAfterwards(), PutAside()
ADMIT, START = Admit(), StartAnew()
