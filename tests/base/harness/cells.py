"""A table of figures, printed on a terminal or in a page of the docs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rich import box
from rich.table import Column, Table


@dataclasses.dataclass(frozen=True)
class Cells:
    """The text of a table.

    Attributes:
        columns: their names.
        rows: a text for each column.
        texts: how many of the first columns are words; the others are figures.
        note: how the figures were made; only in a page, before the table.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1
    note: str = ""

    def __rich__(self) -> Table:
        """Return the table for a terminal; only names of columns are wrapped."""
        made = Table(
            *(
                Column(
                    name,
                    justify="left" if number < self.texts else "right",
                    min_width=max((len(row[number]) for row in self.rows), default=0),
                )
                for number, name in enumerate(self.columns)
            ),
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        for row in self.rows:
            made.add_row(*row)
        return made

    def markdown(self) -> str:
        """Return the table for a page, as lines."""
        lines = (self.columns, *self.rows)
        texts = [f"| {' | '.join(each)} |".replace("|  |", "| |") for each in lines]
        rule = f"|{'---|' * self.texts}{'--:|' * (len(self.columns) - self.texts)}"
        note = [self.note, ""] if self.note else []
        return "\n".join([*note, texts[0], rule, *texts[1:]]) + "\n"
