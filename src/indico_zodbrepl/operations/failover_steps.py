"""The step of a failover that exports the divergent transactions of a fenced node."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.host.datafs_answers import Comparison, describe
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.operations.candidates import (
    against,
    fingerprint,
    lost_count,
    transactions,
)
from indico_zodbrepl.operations.exports import complete, export, names
from indico_zodbrepl.operations.model import (
    Context,
    Figures,
    Step,
)
from indico_zodbrepl.probing import tid

EXPORT_SECONDS = 600.0


class ExportTail(Step):
    """Compare a fenced node with the new primary, and export its divergent transactions.

    A node with divergent transactions is marked ``diverged``: it may not follow before they are
    removed.  The export stays if other steps are undone: it removes nothing from the node.
    """

    action = "export-tail"

    @classmethod
    def of(
        cls,
        commands: Commands,
        node: str,
        new: str,
        *,
        folder: Path,
        found: Comparison,
        stamp: str,
    ) -> Self:
        """Make the step of a comparison of ``node`` with ``new``; ``stamp``: its fingerprint."""
        count = lost_count(found)
        what = transactions(count) if count else "none found so far"
        return cls(
            node,
            {
                "against": new,
                "folder": str(folder),
                "fingerprint": stamp,
                "expected": count,
                "after": found.common.tid if found.common else f"{tid.EMPTY:016x}",
                "detail": describe(found, node, new),
            },
            title=f"Export the transactions that only {node} has: {what}",
            checks=f"{node} has not changed since it was compared with {new}; else compare again",
            command=commands.zodbrepl("history", node, new, "--full"),
            seconds=EXPORT_SECONDS,
            after_no_return=False,
            may_fail=True,
        )

    def check(self, context: Context) -> Figures | None:
        """Return the figures of a complete folder; it appears whole, after the mark."""
        folder = Path(str(self.arguments["folder"]))
        found = complete(context.host, self.subject, folder)
        return None if found is None else self._figures(context, found[0], folder)

    def do(self, context: Context) -> Figures:
        node, arguments = context.cluster.node(self.subject), self.arguments
        count, after, detail = (arguments[key] for key in ("expected", "after", "detail"))
        if not arguments["fingerprint"] == fingerprint(context.host, node.name) != "":
            new = str(arguments["against"])
            found = against(context.cluster, context.installation, self.subject, new)
            count, detail = lost_count(found), describe(found, node.name, new)
            after = found.common.tid if found.common else f"{tid.EMPTY:016x}"
        if not count:
            return {"lost_transactions": 0}
        folder = Path(str(arguments["folder"]))
        context.host.mark(node.name, context.plan.epoch, Condition.DIVERGED, str(detail))
        _, lacking = export(context.host, node, str(after), folder, context.say)
        return {**self._figures(context, int(str(count)), folder), **lacking}

    def _figures(self, context: Context, count: int, folder: Path) -> Figures:
        return {
            "lost_transactions": count,
            "exported_to": str(folder),
            "exported_objects": [*names(context.host, self.subject, folder)],
            "diverged": [self.subject],
        }
