"""What disturbances cost some storages, and how that is shown and kept."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cells import Cells
from rich.console import Console
from rounds import Disturbance

from indico_zodbrepl.bench.summary import Spread, spread


@dataclasses.dataclass
class Figures:
    """What was measured so far.

    Attributes:
        disturbances: by what happened and to which storage.
        left_out: why a storage was not measured, or not to the end.
    """

    disturbances: dict[tuple[str, str], list[Disturbance]] = dataclasses.field(
        default_factory=lambda: defaultdict(list)
    )
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)

    def keep(self, what: str, storage: str, found: Disturbance) -> None:
        self.disturbances[what, storage].append(found)


def show(figures: Figures, console: Console) -> None:
    """Print the table."""
    console.print(costs(figures))
    for name, why in figures.left_out.items():
        console.print(f"{name} was left out: {why.splitlines()[0]}", markup=False)


def dead_servers(path: Path) -> Cells:
    """Return the table of a kept file with what is known of the machine."""
    kept = json.loads(path.read_text())
    before, after = kept["load"]
    note = f"On {kept['processors']} processors; load {before:.1f} before, {after:.1f} after."
    return dataclasses.replace(costs(load(path)), note=note)


def costs(figures: Figures) -> Cells:
    """What happened to each storage, the seconds without a commit, and what became of commits.

    The storages are in the order in which they were measured first.
    """
    order = list(dict.fromkeys(name for _, name in figures.disturbances))
    rows = [
        (
            what,
            _storage(name),
            shown(spread(each.gap for each in found)),
            str(len(found)),
            *(
                f"{sum(getattr(each, key) for each in found):,}"
                for key in ("told", "missing", "exported", "diverged")
            ),
        )
        for (what, name), found in sorted(
            figures.disturbances.items(), key=lambda each: (each[0][0], order.index(each[0][1]))
        )
    ]
    commits = ("acknowledged", "missing", "of these exported", "old primary diverged")
    return Cells(("what happened", "storage", "without a commit, s", "rounds", *commits), rows, 2)


def _storage(name: str) -> str:
    """Return what a page calls a storage that is measured."""
    backend = name.removesuffix("-sync")
    return f"`{backend}`" if backend == name else f"`{backend}`, `synchronous 1`"


def shown(found: Spread | None) -> str:
    """Format as "2.00 (1.50 to 2.50)"."""
    if found is None:
        return "-"
    values = (found.median, found.least, found.most)
    middle, low, high = (f"{each:.2f}" if each < 10 else f"{each:.1f}" for each in values)
    return f"{middle} ({low} to {high})"


def save(path: Path, figures: Figures, machine: Mapping[str, Any]) -> None:
    """Keep all single values as JSON; ``machine`` tells where and when they were measured."""
    path.write_text(
        json.dumps(
            {
                **machine,
                "left_out": figures.left_out,
                "disturbances": [
                    {"what": what, "storage": name, **dataclasses.asdict(each)}
                    for (what, name), found in figures.disturbances.items()
                    for each in found
                ],
            },
            indent=1,
        )
        + "\n"
    )


def load(path: Path) -> Figures:
    """Return what ``save`` kept."""
    kept = json.loads(path.read_text())
    figures = Figures(left_out=kept["left_out"])
    for each in kept["disturbances"]:
        figures.keep(each.pop("what"), each.pop("storage"), Disturbance(**each))
    return figures
