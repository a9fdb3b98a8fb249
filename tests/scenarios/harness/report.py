"""The table of all scenarios of a run: for people, and as JSON."""

from __future__ import annotations

import dataclasses
import io
import json
import time
from pathlib import Path

import rich.box
from ledger import Account, Gap
from rich.console import Console
from rich.table import Table

COLUMNS = ("acknowledged", "missing", "exported", "told", "phantom", "write gap", "read gap")

LEGEND = """\
acknowledged: commits that a client was told are saved
missing: those of them that the cluster lacks at the end
exported: the missing that a lost tail holds; told: those that the journal says are out of reach
phantom: what was read after a failover although it is not there
gaps: the longest time, from the first fault on, without a success of one writer, reader or
      Indico instance"""


@dataclasses.dataclass
class Row:
    """What came of a scenario.

    Attributes:
        account: None when it ended before its ledger was closed.
        times: seconds that each command of an operator took.
        steps: its sentences, each with the seconds it took, from ``began`` on.
    """

    feature: str
    scenario: str
    account: Account | None
    times: list[tuple[str, float]]
    result: str
    steps: list[tuple[str, float]] = dataclasses.field(default_factory=list)
    began: float = 0.0

    def figures(self) -> list[str]:
        """Of the account, in the order of COLUMNS."""
        if self.account is None:
            return ["-"] * len(COLUMNS)
        return [
            str(self.account.acknowledged),
            str(len(self.account.missing)),
            str(len(self.account.exported)),
            str(len(self.account.told)),
            str(len(self.account.phantom)),
            *(f"{gap.seconds:.2f} s" for gap in (self.account.write_gap, self.account.read_gap)),
        ]

    def gap(self, gap: Gap) -> dict[str, object]:
        """A gap for people who look for its cause: who waited, and during which sentences."""
        during, moment = [], self.began
        for name, seconds in self.steps:
            if moment < gap.began + gap.seconds and gap.began < moment + seconds:
                during.append(name)
            moment += seconds
        return {"seconds": round(gap.seconds, 3), "client": gap.client, "during": during}

    def to_json(self) -> dict[str, object]:
        figures = self.account and {
            "acknowledged": self.account.acknowledged,
            "missing": len(self.account.missing),
            "exported": len(self.account.exported),
            "told": len(self.account.told),
            "unaccounted": len(self.account.unaccounted),
            "phantom": len(self.account.phantom),
            "write_gap": self.gap(self.account.write_gap),
            "read_gap": self.gap(self.account.read_gap),
        }
        return {
            "feature": self.feature,
            "scenario": self.scenario,
            "result": self.result,
            **(figures or {}),
            "commands": [[name, round(seconds, 3)] for name, seconds in self.times],
            "steps": [[name, round(seconds, 3)] for name, seconds in self.steps],
        }


def table(rows: list[Row], width: int = 130) -> str:
    """All rows as a table for a terminal without colours, and what its columns mean."""
    made = Table(box=rich.box.SIMPLE, pad_edge=False)
    made.add_column("scenario", max_width=60)
    for column in COLUMNS:
        made.add_column(column, justify="right")
    made.add_column("result")
    for row in rows:
        made.add_row(row.scenario, *row.figures(), row.result)
    output = io.StringIO()
    console = Console(file=output, width=width)
    console.print(made)
    console.print(LEGEND, highlight=False)
    return output.getvalue()


def keep(rows: list[Row], folder: Path) -> Path:
    """Write the rows as JSON into a new file of a folder; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / time.strftime("scenarios-%Y%m%dT%H%M%SZ.json", time.gmtime())
    path.write_text(json.dumps([row.to_json() for row in rows], indent=2) + "\n")
    return path
