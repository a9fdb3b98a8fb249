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
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1

    def __rich__(self) -> Table:
        """Return the table for a terminal."""
        made = Table(
            *(
                Column(name, justify="left" if number < self.texts else "right", no_wrap=True)
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
        return "\n".join([texts[0], rule, *texts[1:]]) + "\n"
