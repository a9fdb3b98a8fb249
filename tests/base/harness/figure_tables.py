"""The figures of some storages, and how they are shown and kept."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rounds import Disturbance, Speed, ratios, shown, spread

CONTROL = "zeo"
# What is measured, by the task of ``bench.py`` that does it.
SPEEDS = {
    "1 object": "commit-1",
    "100 objects": "commit-100",
    "4 writers": "commit-1",
    "cold reads": "read",
}


@dataclasses.dataclass
class Figures:
    """What was measured so far.

    Attributes:
        rates: commits or objects a second, by what and storage, then by round.
        failures: of transactions, by storage.
        disturbances: by what and storage.
        left_out: why a storage was not measured, or not to the end.
    """

    rates: dict[tuple[str, str], dict[int, float]] = dataclasses.field(
        default_factory=lambda: defaultdict(dict)
    )
    failures: dict[str, Counter[str]] = dataclasses.field(
        default_factory=lambda: defaultdict(Counter)
    )
    disturbances: dict[tuple[str, str], list[Disturbance]] = dataclasses.field(
        default_factory=lambda: defaultdict(list)
    )
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)

    def keep(self, what: str, storage: str, number: int, found: Speed | Disturbance) -> None:
        if isinstance(found, Speed):
            self.rates[what, storage][number] = found.rate
            self.failures[storage] += found.failures
        else:
            self.disturbances[what, storage].append(found)


def show(figures: Figures, names: Iterable[str], console: Console) -> None:
    """Print both tables, the storages in the order of their names."""
    names = list(names)
    for table in (speeds(figures, names), costs(figures, names)):
        console.print(table)
    for name, why in figures.left_out.items():
        console.print(f"{name} was left out: {why.splitlines()[0]}", markup=False)


def speeds(figures: Figures, names: Iterable[str]) -> Table:
    """Each storage's rates in times those of the control in the same rounds."""
    table = Table(
        "times zeo",
        *SPEEDS,
        "failed",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title="Commits and reads a second: medians of the rounds, and their range",
    )
    for name in names:
        rates = [figures.rates.get((what, name), {}) for what in SPEEDS]
        if any(rates):
            control = [figures.rates.get((what, CONTROL), {}) for what in SPEEDS]
            table.add_row(
                short(name),
                *(shown(spread(ratios(*pair))) for pair in zip(rates, control, strict=True)),
                str(figures.failures[name].total()),
            )
    return table


def costs(figures: Figures, names: Iterable[str]) -> Table:
    """What happened to each storage, and what that cost those who wrote."""
    table = Table(
        "what happened",
        "storage",
        Column("seconds", no_wrap=True),
        "rounds",
        "told",
        "missing",
        "exported",
        "diverged",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title="What a disturbance costs: the longest time without a commit, and commits",
    )
    order = list(names)
    for (what, name), found in sorted(
        figures.disturbances.items(), key=lambda each: (each[0][0], order.index(each[0][1]))
    ):
        table.add_row(
            what,
            short(name),
            shown(spread(each.gap for each in found)),
            str(len(found)),
            *(
                str(sum(getattr(each, key) for each in found))
                for key in ("told", "missing", "exported", "diverged")
            ),
        )
    return table


def short(name: str) -> str:
    return name.removeprefix("relstorage-")


def save(path: Path, figures: Figures, machine: Mapping[str, Any]) -> None:
    """Keep all single values as JSON; ``machine`` tells where and when they were measured."""
    path.write_text(
        json.dumps(
            {
                **machine,
                "left_out": figures.left_out,
                "failures": figures.failures,
                "rates": [
                    {"what": what, "storage": name, "by_round": found}
                    for (what, name), found in figures.rates.items()
                ],
                "disturbances": [
                    {"what": what, "storage": name, **dataclasses.asdict(each)}
                    for (what, name), found in figures.disturbances.items()
                    for each in found
                ],
            },
            indent=2,
        )
        + "\n"
    )
