"""The table of what `make control-figures` has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from cells import Cells
from plain_servers import KINDS

from indico_zodbrepl.bench import summary

CONTROL = KINDS[0].name
OPERATIONS = {"small": "1 object", "indico": "171 records"}

Lines = Sequence[Mapping[str, Any]]


def table(lines: Lines) -> Cells:
    """One line for each case and server, with the medians of its rounds.

    A ratio is that to the first server in the same round, with the 95 % confidence interval of
    its median.
    """
    rows = []
    for operation, clients in sorted(
        {(each["operation"], each["clients"]) for each in lines},
        key=lambda case: (list(OPERATIONS).index(case[0]), case[1]),
    ):
        case = [
            each for each in lines if (each["operation"], each["clients"]) == (operation, clients)
        ]
        for kind in KINDS:
            found = of_server(case, kind.name)
            if not found:
                continue
            rows.append(
                (
                    OPERATIONS[operation],
                    str(clients),
                    kind.name,
                    f"{median(each['rate'] for each in found.values()):.0f}",
                    "1" if kind.name == CONTROL else ratio(found, of_server(case, CONTROL)),
                    *(
                        f"{median(each[key] for each in found.values()):.2f}"
                        for key in ("p50_ms", "p99_ms", "cpu_ms")
                    ),
                )
            )
    columns = ("commits of", "clients", "server", "commits/s", f"of {CONTROL}'s")
    return Cells((*columns, "p50, ms", "p99, ms", "CPU time, ms"), rows, texts=3)


def of_server(lines: Lines, name: str) -> Mapping[int, Mapping[str, Any]]:
    """Return the lines of a server by their round."""
    return {each["round"]: each for each in lines if each["server"] == name}


def ratio(found: Mapping[int, Mapping[str, Any]], control: Mapping[int, Mapping[str, Any]]) -> str:
    """Return the ratio of the rates, as "0.95 (0.93-0.97)"."""
    common = found.keys() & control.keys()
    made = summary.ratio([found[each]["rate"] / control[each]["rate"] for each in common])
    return f"{made.median:.2f} ({made.low:.2f}-{made.high:.2f})" if made else "-"
