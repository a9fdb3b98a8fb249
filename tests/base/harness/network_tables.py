"""The table of what `make network-figures` has measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from cells import Cells
from control_tables import ratio

from indico_zodbrepl.bench import summary

Lines = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Network:
    """What happens to the frames between two hosts.

    Attributes:
        delay_ms: by which each is late, in each direction.
        loss_percent: how many are lost, in each direction.
    """

    delay_ms: float = 0.0
    loss_percent: int = 0


NETWORKS: Mapping[str, Network] = {
    "no delay": Network(),
    "1 ms": Network(1.0),
    "5 ms": Network(5.0),
    "20 ms": Network(20.0),
    "1 % lost": Network(loss_percent=1),
}
FIGURES = ("p50_ms", "p99_ms")
LAGS = ("lag_p50_ms", "lag_p99_ms")


def table(lines: Lines) -> Cells:
    """One line for each network and number of writers, with the medians of its rounds.

    A ratio is that of synchronous to asynchronous replication in the same round, with the 95 %
    confidence interval of its median.
    """
    rows = []
    for network in NETWORKS:
        for writers in sorted({each["writers"] for each in lines}):
            case = [
                each for each in lines if (each["network"], each["writers"]) == (network, writers)
            ]
            plain, acknowledged = (by_round(case, synchronous) for synchronous in (0, 1))
            if plain and acknowledged:
                rows.append(
                    (
                        network,
                        str(writers),
                        f"{median(each['rate'] for each in plain.values()):.0f}",
                        *middles(plain, (*FIGURES, *LAGS)),
                        ratio(acknowledged, plain),
                        *middles(acknowledged, FIGURES),
                    )
                )
    columns = (
        "network",
        "writers",
        *("commits/s", "p50, ms", "p99, ms", "lag p50, ms", "lag p99, ms"),
        *("`synchronous 1`: of that rate", "p50, ms", "p99, ms"),
    )
    return Cells(columns, rows, texts=1, note=note(lines))


def note(lines: Lines) -> str:
    """Return how often and how long it was measured."""
    rounds = len({each["round"] for each in lines})
    seconds = sorted({each["seconds"] for each in lines})
    times = " or ".join(f"{each:g}" for each in seconds)
    loads = [each["load"] for each in lines]
    sample = summary.ratio([1.0] * rounds)
    ends = "95 % confidence intervals" if sample and sample.is_interval else "the range"
    return (
        f"Medians of {rounds} rounds of {times} s on {lines[0]['processors']} cores, with {ends} "
        f"of the ratios. Load {min(loads):.1f} to {max(loads):.1f}."
    )


def by_round(lines: Lines, synchronous: int) -> Mapping[int, Mapping[str, Any]]:
    return {each["round"]: each for each in lines if each["synchronous"] == synchronous}


def middles(found: Mapping[int, Mapping[str, Any]], keys: Sequence[str]) -> list[str]:
    return [f"{median(each[key] for each in found.values()):.1f}" for key in keys]
