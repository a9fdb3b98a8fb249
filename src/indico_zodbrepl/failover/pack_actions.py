"""Actions of a pack: one look before anything is removed, then a storage after another."""

from __future__ import annotations

from pathlib import Path

from rich.filesize import decimal

from ..backends import can
from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..monitor import take_snapshot
from ..node import packing
from ..node.packing import Packed
from .actions import Context, Repeatable
from .packing import ALL, ending_indico, holder, objections
from .steps import Figures, Step


class Ready(Repeatable):
    """Nothing has come in between since the plan was made."""

    def do(self, context: Context, step: Step) -> Figures:
        cluster, commands = context.cluster, Commands.here(context.cluster)
        reasons = [f"node {each.subject}: {each.text}"
                   for each in objections(take_snapshot(cluster))]
        if reasons:
            raise OperatorError("nothing is packed while a node is not in order",
                                "; ".join(reasons), commands.zodbrepl("status"), ExitCode.REFUSED)
        in_the_way = holder(cluster)
        if in_the_way:
            raise OperatorError(f"{ALL} can't be packed now", in_the_way,
                                ending_indico(cluster, commands), ExitCode.REFUSED)
        return {"days": step.arguments["days"]}


class Pack(Repeatable):
    """One storage is packed, by a program that any storage is opened with.

    The steps may fail: what was packed so far stays so, and nothing has to be resumed before a
    failover.  The next storage is not packed then.
    """

    def do(self, context: Context, step: Step) -> Figures:
        name, before = str(step.arguments["name"]), str(step.arguments["after"])
        days = step.arguments["days"]
        if not isinstance(days, int | float):
            raise TypeError(f"days is {days!r}")
        if before and ("pack", before) not in context.results:
            raise OperatorError(f"{name} was not packed", f"{before} was not packed before it",
                                Commands.here(context.cluster).zodbrepl("pack"), ExitCode.REFUSED)
        try:
            packed = packing.pack(
                context.installation, Path(str(step.arguments["conf"])), float(days),
                lambda seconds: context.say(f"packing {name}, for {seconds:.0f} s"))
        except OperatorError as error:
            hint = (ending_indico(context.cluster, Commands.here(context.cluster))
                    if error.exit_code is ExitCode.REFUSED else "")
            raise OperatorError(f"{name} was not packed", error.detail, hint,
                                error.exit_code) from error
        context.say(f"packed {name} in {packed.seconds:.1f} s{_sizes(context, packed)}")
        return {name: {"before": packed.before, "after": packed.after, "seconds": packed.seconds}}


def _sizes(context: Context, packed: Packed) -> str:
    if packed.before is None or packed.after is None or not can(context.cluster, "size"):
        return ""
    return f": {decimal(packed.before)} before, {decimal(packed.after)} after"


READY, PACK = Ready(), Pack()
