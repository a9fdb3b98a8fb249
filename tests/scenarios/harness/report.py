"""The table of all scenarios of a run: for people, and as JSON."""

from __future__ import annotations

import dataclasses
import io
import json
import time
from pathlib import Path

import rich.box
from ledger import Account
from rich.console import Console
from rich.table import Table

COLUMNS = ("acknowledged", "missing", "exported", "phantom", "write gap", "read gap")


@dataclasses.dataclass
class Row:
    """What came of a scenario; ``account`` is None when it ended before its ledger was closed."""

    feature: str
    scenario: str
    account: Account | None
    times: dict[str, float]
    result: str
    steps: list[tuple[str, float]] = dataclasses.field(default_factory=list)

    def figures(self) -> list[str]:
        """Of the account, in the order of COLUMNS."""
        if self.account is None:
            return ["-"] * len(COLUMNS)
        return [str(self.account.acknowledged), str(len(self.account.missing)),
                str(len(self.account.exported)), str(len(self.account.phantom)),
                f"{self.account.write_gap:.2f} s", f"{self.account.read_gap:.2f} s"]

    def to_json(self) -> dict[str, object]:
        figures = self.account and {
            "acknowledged": self.account.acknowledged, "missing": len(self.account.missing),
            "exported": len(self.account.exported), "phantom": len(self.account.phantom),
            "write_gap": round(self.account.write_gap, 3),
            "read_gap": round(self.account.read_gap, 3)}
        return {"feature": self.feature, "scenario": self.scenario, "result": self.result,
                **(figures or {}),
                "commands": {name: round(seconds, 3) for name, seconds in self.times.items()},
                "steps": [[name, round(seconds, 3)] for name, seconds in self.steps]}


def table(rows: list[Row], width: int = 130) -> str:
    """All rows as a table for a terminal without colours."""
    made = Table(box=rich.box.SIMPLE, pad_edge=False)
    made.add_column("scenario", max_width=60)
    for column in COLUMNS:
        made.add_column(column, justify="right")
    made.add_column("result")
    for row in rows:
        made.add_row(row.scenario, *row.figures(), row.result)
    output = io.StringIO()
    Console(file=output, width=width).print(made)
    return output.getvalue()


def keep(rows: list[Row], folder: Path) -> Path:
    """Write the rows as JSON into a new file of a folder; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / time.strftime("scenarios-%Y%m%dT%H%M%SZ.json", time.gmtime())
    path.write_text(json.dumps([row.to_json() for row in rows], indent=2) + "\n")
    return path
