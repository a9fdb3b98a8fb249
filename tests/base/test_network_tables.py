"""What `make network-figures` prints."""

from __future__ import annotations

from typing import Any

from network_tables import table


def line(synchronous: int, rate: float, number: int = 0, network: str = "1 ms") -> dict[str, Any]:
    times = {"p50_ms": 2.04, "p99_ms": 9.0, "lag_p50_ms": 1.5, "lag_p99_ms": 4.25}
    return {
        "network": network,
        "writers": 4,
        "synchronous": synchronous,
        "round": number,
        "rate": rate,
        "seconds": 4.0,
        "processors": 2,
        "load": 3.0 + number,
        **times,
    }


def test_a_row_compares_acknowledged_commits_with_asynchronous_ones_of_the_same_round() -> None:
    found = table([line(0, 100.0), line(1, 50.0), line(0, 200.0, 1), line(1, 40.0, 1)])
    figures = ("150", "2.0", "9.0", "1.5", "4.2", "0.35 (0.20-0.50)", "2.0", "9.0")
    assert [("1 ms", "4", *figures)] == found.rows


def test_networks_stand_in_the_order_of_their_delay() -> None:
    names = ("20 ms", "1 % lost", "no delay")
    found = table([line(kind, 10.0, network=name) for name in names for kind in (0, 1)])
    assert ["no delay", "20 ms", "1 % lost"] == [row[0] for row in found.rows]


def test_a_page_says_how_it_was_measured() -> None:
    assert (
        "Medians of 2 rounds of 4 s on 2 cores, with the range of the ratios. Load 3.0 to 4.0."
        == table([line(kind, 10.0, number) for kind in (0, 1) for number in (0, 1)]).note
    )
