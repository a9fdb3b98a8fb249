"""The steps of a rejoin that nothing else needs; see ``actions``."""

from __future__ import annotations

from pathlib import Path

from ..cluster.commands import Commands
from ..cluster.layout import data_fs
from ..errors import ExitCode, OperatorError
from ..node import datafs, epochs, following, lineage
from ..node.lineage import Condition, Lineage
from .actions import Context, Repeatable
from .comparing import transactions
from .contents import contents
from .exports import covers, export
from .steps import Figures, JsonValue, Step


class Compare(Repeatable):
    """Both files once more, now that the node's server has ended: is the plan still right?"""

    def do(self, context: Context, step: Step) -> Figures:
        cluster = context.cluster
        node, other = cluster.node(step.subject), cluster.node(str(step.arguments["against"]))
        found = datafs.compare(context.installation, data_fs(node), data_fs(other),
                               seconds=step.seconds)
        common = found.common.tid if found.common else None
        planned = step.arguments["cut_after"]
        expected = found.relation.may_follow if planned is None else common == planned
        if found.conflicting or not expected:
            raise OperatorError(f"{node.name} changed since it was looked at",
                                following.says(found, node.name, other.name),
                                _again(context, step), ExitCode.REFUSED)
        return {"relation": str(found.relation), "private": found.private,
                "missing": found.missing, "common": common,
                "common_digest": found.common.digest if found.common else None}


class _Quarantining(Repeatable):
    """A step whose failure leaves a node that must not start before somebody has looked."""

    def do(self, context: Context, step: Step) -> Figures:
        try:
            return self._do(context, step)
        except OperatorError as error:
            lineage.mark(context.cluster.node(step.subject), context.plan.epoch,
                         Condition.QUARANTINED, f"{step.title}: {error.notice}: {error.detail}")
            raise

    def _do(self, context: Context, step: Step) -> Figures:
        raise NotImplementedError


class Export(_Quarantining):
    """Transactions after the common point, in a folder that appears when it is complete.

    One that a failover exported is used as it is, if it still has all of them.
    """

    def do(self, context: Context, step: Step) -> Figures:
        node, folder = context.cluster.node(step.subject), Path(str(step.arguments["folder"]))
        if step.arguments.get("reused") and not covers(
                context.installation, node, folder, str(step.arguments["after"])):
            raise OperatorError(f"{folder} has not what {node.name} would lose now",
                                f"after {step.arguments['after']}",
                                _again(context, step), ExitCode.REFUSED)
        return super().do(context, step)

    def _do(self, context: Context, step: Step) -> Figures:
        folder = Path(str(step.arguments["folder"]))
        if step.arguments.get("reused"):  # who exported it has counted the loss
            return _exported(context, folder)
        lost: Figures = {"lost_transactions": step.arguments["private"]}
        if folder.is_dir():  # an earlier attempt completed it
            return {**_exported(context, folder), **lost}
        done, lacking = export(context.installation, context.cluster.node(step.subject),
                               str(step.arguments["after"]), folder, context.say)
        context.say(f"{transactions(done.transactions)} exported")
        return {**_exported(context, folder), "exported": done.transactions, **lost, **lacking}


class Cut(_Quarantining):
    """The file ends with the common transaction; what was cut is in the exported folder."""

    def _do(self, context: Context, step: Step) -> Figures:
        done = datafs.truncate(context.installation, data_fs(context.cluster.node(step.subject)),
                               str(step.arguments["after"]), Path(str(step.arguments["folder"])))
        return {"cut_transactions": done.transactions, "cut_bytes": done.bytes}

    def is_untouched(self, _context: Context, step: Step) -> bool:
        """What is cut is kept first, and noted then."""
        return not (Path(str(step.arguments["folder"])) / "cut.json").exists()


class Mark(Repeatable):
    """The lineage file says the node's condition, and how far its history was shown."""

    def do(self, context: Context, step: Step) -> Figures:
        installation, node = context.installation, context.cluster.node(step.subject)
        epoch, condition = context.plan.epoch, Condition(str(step.arguments["condition"]))
        detail = str(step.arguments["detail"])
        if condition is not Condition.OK:
            lineage.mark(node, epoch, condition, detail)
            return {"condition": str(condition)}
        compared = context.results.get(("rejoin-compare", node.name))
        if compared is None:  # the file is a copy of the other one's
            last = datafs.last(installation, data_fs(node)).tid
            digest = datafs.digest(installation, data_fs(node), last) if last else None
        else:
            last, digest = _text(compared["common"]), _text(compared["common_digest"])
        lineage.write(node, Lineage(last, digest, str(step.arguments["against"]), epoch,
                                    was_writable=False, condition=condition, detail="",
                                    at=epochs.now()))
        return {"condition": str(condition), "verified_tid": last}


def _again(context: Context, step: Step) -> str:
    return Commands.here(context.cluster).zodbrepl("rejoin", step.subject)


def _exported(context: Context, folder: Path) -> dict[str, JsonValue]:
    """Figures of a folder; what is in it is said too."""
    found = contents(folder)
    for what in found:
        context.say(what)
    return {"exported_to": str(folder), "exported_objects": [*found]}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


COMPARE, EXPORT, CUT, MARK = Compare(), Export(), Cut(), Mark()
