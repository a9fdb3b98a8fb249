"""Events as lines for people: on a terminal, and in the program's log."""

from __future__ import annotations

import datetime

from rich.console import Console
from rich.text import Text

from indico_zodbrepl.monitord.events import Event, Weight

STYLES = {
    Weight.CRITICAL: "bold red",
    Weight.WARNING: "yellow",
    Weight.NOTICE: "cyan",
    Weight.GOOD: "green",
}
INDENT = " " * 31


def lines(event: Event) -> list[str]:
    """Return an event as text, with its detail and hint on lines of their own."""
    at = datetime.datetime.fromtimestamp(event.at, datetime.UTC)
    found = [f"{at:%Y-%m-%d %H:%M:%S}  {event.weight:<8}  {event.text}"]
    if event.detail:
        found.append(f"{INDENT}{event.detail}")
    if event.hint:
        found.append(f"{INDENT}HINT: {event.hint}")
    return found


def show(console: Console, event: Event) -> None:
    """Print an event, in colour on a terminal."""
    first, *others = lines(event)
    text = Text(first)
    text.stylize(STYLES[event.weight], 21, 21 + len(event.weight))
    for line in (text, *map(Text, others)):
        console.print(line, soft_wrap=True)
