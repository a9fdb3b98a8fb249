"""Figures in words; a line of the journal with strange values is told as damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_world import PLAN, cluster

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import journal, operation
from indico_zodbrepl.operations.messages import figures_in_words, gap_text, lost_text
from indico_zodbrepl.operations.model import JsonValue

BEGUN = operation.new("test", PLAN, "somebody", 1795172767.0)


def with_told(**told: JsonValue) -> operation.Operation:
    values = BEGUN.to_json() | {"told": told}
    return operation.operation_from_json(values)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("write_gap_seconds", 0.652, ("write downtime", "0.65 s")),
        ("promoted_in_place", True, ("promoted without a restart of its server", "yes")),
        ("days", 7.0, ("days of history kept", "7.0")),
        ("copied_bytes", 1234567, ("copied", "1,234,567 bytes")),
        ("held_at", 1795172767.123, ("writes paused from", "2026-11-20 11:06:07 UTC")),
        ("held_at", 1e300, ("writes paused from", "1e+300")),
        ("diverged", [], ("nodes that diverged", "none")),
        ("kept_in", None, ("the replaced data are kept in", "none")),
        ("something_new", "x", ("something new", "x")),
        (
            "b",
            {"before": 20, "after": 10, "seconds": 1.5},
            ("packed b", "bytes before 20, bytes after 10, seconds 1.50 s"),
        ),
        ("left", {"before": 20}, ("packed left", "bytes before 20")),
    ],
)
def test_a_figure_is_reported_in_words_with_its_unit(
    name: str, value: JsonValue, expected: tuple[str, str]
) -> None:
    assert [expected] == list(figures_in_words({name: value}))


def test_a_gap_that_was_not_measured_is_a_dash() -> None:
    assert ("-", "0.50 s", "2.00 s") == (
        gap_text(BEGUN),
        gap_text(with_told(write_gap_seconds=0.5)),
        gap_text(with_told(writable_after_seconds=2)),
    )


def test_what_was_lost_is_zero_when_nothing_could_be() -> None:
    assert ("0", "3") == (lost_text(BEGUN), lost_text(with_told(lost_transactions=3)))


@pytest.mark.parametrize(
    "change",
    [
        {"began": "yesterday"},
        {"began": 1e300},
        {"ended": -1},
        {"actor": None},
        {"remark": 7},
        {"told": []},
        {"steps": []},
        {"id": ["x"]},
        {"told": {"diverged": "a"}},
        {"told": {"diverged": [1]}},
        {"told": {"write_gap_seconds": "long"}},
    ],
)
def test_a_line_with_a_value_that_nobody_could_show_is_reported_as_damaged(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    of = cluster(tmp_path)
    Layout(of).journal.write_text(json.dumps(BEGUN.to_json() | change) + "\n")
    journal.append(of, BEGUN)
    entries, notices = journal.read(of)
    assert [BEGUN] == entries
    assert [f"{Layout(of).journal}:1: no entry of a journal"] == [
        notice.rsplit(": ", 2)[0] for notice in notices
    ]


def test_the_beginning_of_an_id_finds_the_only_operation_that_begins_so() -> None:
    other = operation.new("test", PLAN, "somebody", 1795172768.0)
    entries = [BEGUN, other]
    assert (BEGUN, other) == (
        journal.find(entries, BEGUN.identifier),
        journal.find(entries, "20261120T110608"),
    )
    for wrong, number in (("2026", 2), ("x", 0)):
        with pytest.raises(OperatorError, match=f"{number} operations"):
            journal.find(entries, wrong)
