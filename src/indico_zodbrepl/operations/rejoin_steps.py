"""The steps of a rejoin."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs_answers import Truncation, describe
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.exports import export, names
from indico_zodbrepl.operations.model import Context, Figures, JsonValue, Step
from indico_zodbrepl.operations.start_steps import Start
from indico_zodbrepl.probing.times import now

INDEXED_PER_SECOND = 2e6
"""Bytes per second that the slowest server reads to build an index; for time limits."""
LEAST_SECONDS = 120.0


def start(commands: Commands, node: str, size: int) -> Step:
    """Return the step that starts the node; without an index it reads the whole file."""
    seconds = LEAST_SECONDS + size / INDEXED_PER_SECOND
    return Start.of(commands, node, may_fail=False, seconds=seconds)


class Compare(Step):
    """Compare both files again after the node's server has stopped, to confirm the plan."""

    action = "rejoin-compare"

    @classmethod
    def of(
        cls,
        commands: Commands,
        node: str,
        primary: str,
        *,
        cut_after: str | None,
        verified: str | None,
        fork: str | None,
        seconds: float,
        damaged: bool = False,
    ) -> Self:
        """Make the step.

        Args:
            verified, fork, damaged: see ``divergence.compare``.
        """
        whole = verified is None
        what = "from end to end" if whole else "after the last comparison"
        return cls(
            node,
            {
                "against": primary,
                "cut_after": cut_after,
                "verified": verified,
                "fork": fork,
                "damaged": damaged,
            },
            title=f"Compare {node}'s data file with {primary}'s, {what}",
            checks="nothing was added to it since the plan was made",
            command=commands.zodbrepl("history", node, primary, *(["--full"] if whole else [])),
            seconds=seconds,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        cluster = context.cluster
        node, other = cluster.node(self.subject), cluster.node(str(self.arguments["against"]))
        fork = _text(self.arguments.get("fork"))
        found = context.host.compare(
            node.name,
            other.name,
            _text(self.arguments.get("verified")),
            seconds=self.seconds,
            fork=fork,
            damaged=bool(self.arguments.get("damaged")),
        )
        common = found.common.tid if found.common else None
        planned = self.arguments["cut_after"]
        expected = found.relation.may_follow if planned is None else common == planned
        if found.conflicting or found.blobs_differing or not expected:
            raise OperatorError(
                f"{node.name} changed since it was looked at",
                describe(found, node.name, other.name),
                _again(context, self),
                ExitCode.REFUSED,
            )
        return {
            "relation": str(found.relation),
            "private": found.private,
            "missing": found.missing,
            "common": common,
            "common_digest": found.common.digest if found.common else None,
        }


class _Quarantining(Step):
    """A step whose failure may leave a node that must not start before an operator has checked it.

    That is so if its data are the reason, or may have been changed.  Otherwise, as when the disk
    was full or the program was killed, it may work later.
    """

    def do(self, context: Context) -> Figures:
        try:
            return self._do(context)
        except OperatorError as error:
            if self.after_no_return or error.exit_code is ExitCode.REFUSED:
                context.host.mark(
                    self.subject,
                    context.plan.epoch,
                    Condition.QUARANTINED,
                    f"{self.title}: {error.notice}: {error.detail}",
                )
            raise

    def _do(self, context: Context) -> Figures:
        raise NotImplementedError


class Export(_Quarantining):
    """Export the transactions after the common one to a folder that appears when complete.

    A failover's export is used as it is, if it still has all of them.
    """

    action = "rejoin-export"

    @classmethod
    def of(
        cls,
        commands: Commands,
        node: str,
        primary: str,
        after: str,
        *,
        folder: Path,
        seconds: float,
        private: int | None,
        reused: bool = False,
        damaged: bool = False,
    ) -> Self:
        """Make the step.

        Args:
            private: the node's own transactions, None when that is uncertain.
            reused: a failover's export has them.
            damaged: the end of the node's data file can't be read.
        """
        what = f"what {node} has after {after}"
        what += "" if private is None else f" ({private} of its own)"
        return cls(
            node,
            {
                "after": after,
                "folder": str(folder),
                "private": private,
                "reused": reused,
                "damaged": damaged,
            },
            title=f"Use the export of {what} that is in {folder}"
            if reused
            else f"Export {what} to {folder}",
            checks="the folder has the same transactions"
            if reused
            else "the exported folder is complete, or not there",
            command=commands.zodbrepl("history", node, primary, "--full"),
            seconds=seconds,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        node, folder = context.cluster.node(self.subject), Path(str(self.arguments["folder"]))
        if self.arguments.get("reused") and not context.host.export_covers(
            node.name, folder, str(self.arguments["after"])
        ):
            raise OperatorError(
                f"{folder} has not what {node.name} would lose now",
                f"after {self.arguments['after']}",
                _again(context, self),
                ExitCode.REFUSED,
            )
        return super().do(context)

    def writes(self, context: Context) -> int:
        """Return the bytes of the transactions and their blobs, and what every step writes."""
        removed = _after(context, self)
        return super().writes(context) + removed.bytes + removed.blob_bytes

    def _do(self, context: Context) -> Figures:
        folder = Path(str(self.arguments["folder"]))
        if self.arguments.get("reused"):  # the loss was counted when it was exported
            return _exported(context, self.subject, folder)
        private = self.arguments["private"]
        lost: Figures = {} if private is None else {"lost_transactions": private}
        if context.host.kept_export(self.subject, folder) is not None:
            # An earlier attempt completed it.
            return {**_exported(context, self.subject, folder), **lost}
        done, lacking = export(
            context.host,
            context.cluster.node(self.subject),
            str(self.arguments["after"]),
            folder,
            context.say,
            damaged=bool(self.arguments.get("damaged")),
        )
        context.say(f"{transactions(done.transactions)} exported")
        told = _exported(context, self.subject, folder)
        return {**told, "exported": done.transactions, **lost, **lacking}


def _after(context: Context, step: Step) -> Truncation:
    """Return what a node's file has after the transaction that a step names."""
    folder = Path(step.text("folder"))
    return context.host.truncate(step.subject, step.text("after"), folder, dry_run=True)


class Cut(_Quarantining):
    """Truncate the data file after the common transaction; the rest is in the exported folder."""

    action = "rejoin-cut"

    @classmethod
    def of(cls, node: str, after: str, folder: Path, seconds: float) -> Self:
        return cls(
            node,
            {"after": after, "folder": str(folder)},
            title=f"Truncate {node}'s data file after {after}",
            checks="what is removed is kept in the same folder first",
            seconds=seconds,
            after_no_return=True,
        )

    def _do(self, context: Context) -> Figures:
        done = context.host.truncate(
            self.subject,
            str(self.arguments["after"]),
            Path(str(self.arguments["folder"])),
        )
        return {"cut_transactions": done.transactions, "cut_bytes": done.bytes}

    def writes(self, context: Context) -> int:
        """Return the bytes that are kept before they are removed, and what every step writes.

        The export has copied the blobs to the same folder.
        """
        return super().writes(context) + _after(context, self).bytes

    def is_untouched(self, context: Context) -> bool:
        """Return True if nothing was truncated: what is removed is noted first."""
        found = context.host.kept_export(self.subject, Path(str(self.arguments["folder"])))
        return found is None or not found.truncated


class Mark(Step):
    """Write the node's condition and its last verified transaction into the history file."""

    action = "rejoin-mark"

    @classmethod
    def of(
        cls,
        commands: Commands,
        node: str,
        primary: str,
        condition: str = str(Condition.OK),
        why: str = "",
    ) -> Self:
        fine = condition == str(Condition.OK)
        return cls(
            node,
            {"against": primary, "condition": condition, "detail": why},
            title=f"Write into {node}'s history file: {condition}",
            checks="its last verified transaction is written too" if fine else "",
            command=commands.zodbrepl("history", node),
            seconds=LEAST_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        node = context.cluster.node(self.subject)
        epoch, condition = context.plan.epoch, Condition(str(self.arguments["condition"]))
        detail = str(self.arguments["detail"])
        if condition is not Condition.OK:
            context.host.mark(node.name, epoch, condition, detail)
            return {"condition": str(condition)}
        compared = context.results.get(("rejoin-compare", node.name))
        if compared is None:  # the file is a copy of the other one's
            last = context.host.last_transaction(node.name).tid
            digest = context.host.digest(node.name, last) if last else None
        else:
            last, digest = _text(compared["common"]), _text(compared["common_digest"])
        context.host.write_history(
            node.name,
            Lineage(
                last,
                digest,
                str(self.arguments["against"]),
                epoch,
                was_writable=False,
                condition=condition,
                detail="",
                at=now(),
            ),
        )
        return {"condition": str(condition), "verified_tid": last}


def _again(context: Context, step: Step) -> str:
    return Commands.here(context.cluster).zodbrepl("rejoin", step.subject)


def _exported(context: Context, node: str, folder: Path) -> dict[str, JsonValue]:
    """Return the figures of a folder, and print what is in it."""
    found = names(context.host, node, folder)
    for what in found:
        context.say(what)
    return {"exported_to": str(folder), "exported_objects": [*found]}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
