"""Action: what only a fenced node has is exported before anybody can overwrite it."""

from __future__ import annotations

import json
from pathlib import Path

from ..node import following, lineage
from ..probing import tid
from .actions import Context, Repeatable
from .comparing import against, fingerprint, lost_count
from .contents import contents
from .exports import export
from .steps import Figures, Step


class ExportTail(Repeatable):
    """Compares a node that no longer runs with the new primary, and exports its tail.

    A node that has one is marked ``diverged``: it may not follow before its tail is cut off.
    What was exported stays when the rest is taken back: it takes nothing away from the node.
    """

    def check(self, _context: Context, step: Step) -> Figures | None:
        """A folder of exported transactions appears whole or not at all, after the mark."""
        folder = Path(str(step.arguments["folder"]))
        if not folder.is_dir():
            return None
        kept = json.loads((folder / "tail.json").read_text("utf-8"))
        return self._told(step, len(kept["transactions"]), folder)

    def do(self, context: Context, step: Step) -> Figures:
        node, arguments = context.cluster.node(step.subject), step.arguments
        count, after, detail = (arguments[key] for key in ("expected", "after", "detail"))
        if not arguments["fingerprint"] == fingerprint(node) != "":
            new = str(arguments["against"])
            found = against(context.cluster, context.installation, step.subject, new)
            count, detail = lost_count(found), following.says(found, node.name, new)
            after = found.common.tid if found.common else f"{tid.EMPTY:016x}"
        if not count:
            return {"lost_transactions": 0}
        folder = Path(str(arguments["folder"]))
        lineage.mark(node, context.plan.epoch, lineage.Condition.DIVERGED, str(detail))
        _, lacking = export(context.installation, node, str(after), folder, context.say)
        return {**self._told(step, int(str(count)), folder), **lacking}

    def _told(self, step: Step, count: int, folder: Path) -> Figures:
        return {"lost_transactions": count, "exported_to": str(folder),
                "exported_objects": [*contents(folder)], "diverged": [step.subject]}


EXPORT_TAIL = ExportTail()
