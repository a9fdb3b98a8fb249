"""The timeline of an incident: what is in it, in which order, and the same as Markdown."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import past
import pytest

from indico_zodbrepl.admin import incident as timeline
from indico_zodbrepl.admin.incident import Incident, IncidentEntry, IncidentKind, around, incident
from indico_zodbrepl.admin.incident_report import escaped, markdown
from indico_zodbrepl.host.logs_interface import LogLine
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.history import FILE, Store
from indico_zodbrepl.monitord.recorded import Reader
from indico_zodbrepl.monitord.series import COARSE, FINE, MEDIUM, Measured, Series
from indico_zodbrepl.monitord.series import Kind as Measurement
from indico_zodbrepl.operations.losses import losses

BEGAN = past.BEGAN
PERIOD = (BEGAN - 300, BEGAN + 300)
PROGRAMS = {"node-a": "a", "node-b": "b", "indico-one": "one"}
STOPPED = "primary a is stopped"


def made(**changes: Any) -> Incident:
    given: dict[str, Any] = {
        "ongoing": False,
        "journal": [],
        "losses": [],
        "events": [],
        "lines": [],
        "unavailable": None,
        "notes": [],
        "programs": PROGRAMS,
    }
    return incident(PERIOD, **given | changes)


def whole() -> Incident:
    journal = [past.outage(), past.failover(Path("/x/a-2"))]
    return made(
        journal=journal,
        losses=losses(journal),
        events=[
            Event(BEGAN - 190, Kind.ALERT, Weight.CRITICAL, "a", STOPPED, "nothing listens"),
            Event(BEGAN + 10, Kind.STATE, Weight.GOOD, "", "HEALTHY: <b>all</b> is well"),
        ],
        lines=[LogLine(BEGAN - 191, "supervisord", "WARN exited: node-a | [x](y)")],
        unavailable={"one": 12, "two": 3},
        notes=["A note."],
    )


def test_all_that_was_recorded_is_in_one_order() -> None:
    assert [
        (-194.6, "saving", "a", "Last save before the outage"),
        (-191.0, "log", "supervisord", "WARN exited: node-a | [x](y)"),
        (-190.0, "alert", "a", "Primary a is stopped"),
        (0.0, "operation", "b", "Failover to b: started"),
        (3.4, "saving", "b", "First save after the outage"),
        (5.0, "operation", "b", "Failover to b: step failed: let c follow b"),
        (5.0, "operation", "b", "Failover to b: incomplete"),
        (10.0, "event", "", "HEALTHY: <b>all</b> is well"),
    ] == [
        (round(each.at - BEGAN, 3), each.kind, each.subject, each.text) for each in whole().entries
    ]


def test_the_summary_has_the_outage_the_operation_and_the_loss() -> None:
    found = whole()
    assert ["198 s"] == [each.short for each in found.outages]
    assert ["failover"] == [each.plan.operation for each in found.operations]
    assert [("a", 3)] == [(each.node, each.transactions) for each in found.losses]


def test_what_is_outside_of_the_period_is_left_out() -> None:
    early = Event(PERIOD[0] - 1, Kind.ALERT, Weight.CRITICAL, "a", STOPPED)
    late = dataclasses.replace(early, at=PERIOD[1] + 1)
    found = made(journal=[past.packing(-9), past.packing(9)], events=[early, late])
    assert ((), ()) == (found.entries, found.operations)


def test_an_operation_that_began_earlier_counts_while_it_runs() -> None:
    pack = dataclasses.replace(past.packing(-9), ended=None)
    assert [pack] == list(made(journal=[pack]).operations)


def test_operations_and_log_lines_of_the_automation_are_decisions() -> None:
    entry = dataclasses.replace(past.failover(Path()), actor="automation")
    line = LogLine(BEGAN, "automation-h1", "node b takes over")
    found = made(journal=[entry], lines=[line])
    assert {IncidentKind.DECISION} == {each.kind for each in found.entries}


def test_what_is_done_at_once_is_one_entry() -> None:
    entry = past.packing(0, "eve")
    found = made(journal=[dataclasses.replace(entry, ended=entry.began)])
    assert [("Pack of test", "by eve: weekly")] == [
        (each.text, each.detail) for each in found.entries
    ]


def test_lines_that_differ_in_numbers_only_are_one_entry() -> None:
    lines = [LogLine(BEGAN + at, "node-a", f"WARNING port {at} is gone") for at in range(4)]
    lines += [LogLine(BEGAN, "node-b", "WARNING port 1 is gone")]
    assert [
        ("a", "WARNING port 0 is gone", "and 3 more lines like this within 3.00 s"),
        ("b", "WARNING port 1 is gone", ""),
    ] == [(each.subject, each.text, each.detail) for each in made(lines=lines).entries]


def test_a_note_says_how_much_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_LINES", 2)
    monkeypatch.setattr(timeline, "MOST_ENTRIES", 1)
    lines = [LogLine(BEGAN, "node-a", f"ERROR {'x' * number}") for number in range(5)]
    found = made(lines=lines, notes=["A note."])
    assert (
        "A note.",
        "3 more log lines are not shown.",
        "1 later entry is not shown. Choose a shorter period.",
    ) == found.notes
    assert 1 == len(found.entries)


def test_an_outage_without_a_save_ends_when_saving_is_possible() -> None:
    entry = past.outage(first_save=None)
    begun = {**entry.told, "last_save_at": None}
    assert [(-194.6, "Saving was last possible"), (5.0, "Saving is possible again")] == [
        (round(each.at - BEGAN, 3), each.text)
        for each in made(journal=[dataclasses.replace(entry, told=begun)]).entries
    ]


def test_texts_are_one_short_line() -> None:
    event = Event(BEGAN, Kind.STATE, Weight.GOOD, "", 500 * "X", "first\nsecond")
    (entry,) = made(events=[event]).entries
    assert (f"{399 * 'X'}…", "first") == (entry.text, entry.detail)


def test_the_period_of_an_operation_holds_its_outage() -> None:
    failover = past.failover(Path())
    entries = [past.outage(), failover]
    minute = 1795172760.0  # 11:06:00
    assert (minute - 540, minute + 360) == around(failover, entries, 0.0)
    assert (minute - 300, minute + 360) == around(failover, [failover], 0.0)


def test_the_period_of_an_open_operation_ends_after_now() -> None:
    entry = dataclasses.replace(past.failover(Path()), ended=None)
    assert 1795172760.0 + 960 == around(entry, [entry], BEGAN + 600)[1]


def test_answers_503_are_counted_from_their_rate(tmp_path: Path) -> None:
    store = Store(tmp_path / FILE)
    series = Series(Measurement.UNAVAILABLE, "one")
    for at, rate in ((0.0, 600.0), (5.0, 120.0), (10.0, 12.0), (60.0, 600.0)):
        store.add(BEGAN + at, Measured([(series, rate)]))
    store.close()
    recorded = Reader(tmp_path / FILE).recorded(FINE, BEGAN + 60)
    assert {"one": 11} == timeline.unavailable(recorded, (BEGAN + 5, BEGAN + 10))
    assert timeline.unavailable(recorded, (BEGAN - 60, BEGAN - 50)) is None


@pytest.mark.parametrize(
    ("ago", "expected"), [(60, FINE), (3601, MEDIUM), (86401, COARSE), (604801, None)]
)
def test_the_finest_measurements_that_are_still_kept_count(ago: int, expected: Any) -> None:
    assert expected == timeline.resolution_of(BEGAN - ago, BEGAN)


def test_the_report_is_markdown() -> None:
    assert markdown(whole(), "demo") == (
        "# Incident: demo, 2026-11-20 11:01:07 UTC\n\n"
        "From 2026-11-20 11:01:07 UTC to 2026-11-20 11:11:07 UTC.\n\n"
        "## Summary\n\n"
        "- Users could not save: 198 s, from the last save (2026-11-20 11:02:52 UTC) to the first "
        "one after it (2026-11-20 11:06:10 UTC)\n"
        "- Answers 503 of Indico: about 15 (one 12, two 3)\n"
        "- Lost transactions: 3 of node a; not decided\n\n"
        "## What happened\n\n"
        "## Impact\n\n"
        "## Who did what\n\n"
        "- 2026-11-20 11:06:07 UTC, anna, Failover to b (incomplete): a's disk is broken\n\n"
        "## Timeline\n\n"
        "| Time | Kind | Node | Text |\n"
        "|---|---|---|---|\n"
        "| 2026-11-20 11:02:52 UTC | saving | a | Last save before the outage |\n"
        "| 2026-11-20 11:02:56 UTC | log line | supervisord "
        "| WARN exited: node-a \\| \\[x\\](y) |\n"
        "| 2026-11-20 11:02:57 UTC | alert, critical | a "
        "| Primary a is stopped (nothing listens) |\n"
        "| 2026-11-20 11:06:07 UTC | operation | b "
        "| Failover to b: started (by anna: a's disk is broken) |\n"
        "| 2026-11-20 11:06:10 UTC | saving | b "
        "| First save after the outage (Users could not save: 198 s) |\n"
        "| 2026-11-20 11:06:12 UTC | operation | b | Failover to b: step failed: let c follow b "
        "(c: no answer within 2 s) |\n"
        "| 2026-11-20 11:06:12 UTC | operation | b | Failover to b: incomplete |\n"
        "| 2026-11-20 11:06:17 UTC | event, good |  | HEALTHY: \\<b\\>all\\</b\\> is well |\n\n"
        "A note.\n\n"
        "## What went well\n\n"
        "## What went badly\n\n"
        "## Actions\n"
    )


def test_the_report_of_a_quiet_period_says_so() -> None:
    report = markdown(made(), "demo")
    for expected in (
        "- No outage that has ended was recorded.\n",
        "- Answers 503 of Indico: not measured\n",
        "- Lost transactions: none recorded\n",
        "\n\nNo operation.\n\n",
    ):
        assert expected in report


def test_the_report_says_that_an_outage_is_not_over() -> None:
    assert "- Users cannot save now.\n" in markdown(made(ongoing=True), "demo")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a | b\n# c", "a \\| b \\# c"),
        ("[x](javascript:y) ![z]", "\\[x\\](javascript:y) !\\[z\\]"),
        ("`rm` <script> *b* _c_ ~d~ \\e &amp;", None),
        ("left\u202eright", "left?right"),
    ],
)
def test_nothing_in_a_text_is_markdown(text: str, shown: str | None) -> None:
    expected = "\\`rm\\` \\<script\\> \\*b\\* \\_c\\_ \\~d\\~ \\\\e \\&amp;"
    assert (expected if shown is None else shown) == escaped(text)


def test_an_entry_of_the_report_is_one_row() -> None:
    entry = IncidentEntry(BEGAN, IncidentKind.EVENT, "", "a|b", "x\ny", "", None)
    found = dataclasses.replace(made(), entries=(entry,))
    assert "\n| 2026-11-20 11:06:07 UTC | event | a\\|b | x y |\n" in markdown(found, "demo")
