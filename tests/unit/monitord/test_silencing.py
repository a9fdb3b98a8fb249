"""A silenced alert is sent to nobody until its silence ends; nothing else is left out."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from situations import (
    ALL_STOPPED,
    HEALTHY,
    PRIMARY_KILLED,
    SECONDARY_KILLED,
    UNKNOWN,
    cluster,
    findings,
    snapshot,
)

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitord.events import Event, Kind
from indico_zodbrepl.monitord.loop import EventDetector
from indico_zodbrepl.monitord.notifiers import Notifier
from indico_zodbrepl.operations import journal, operation, silences
from indico_zodbrepl.operations.model import JsonValue, Plan
from indico_zodbrepl.operations.operation import Operation, Outcome
from indico_zodbrepl.operations.silences import MOST_HOURS, active, key_of, name_of, named
from indico_zodbrepl.probing.answers import Level

NOW = float(int(time.time()))
DIVERGED = {
    **SECONDARY_KILLED,
    "lineages": {"b": (Condition.DIVERGED, "3 transactions only here.")},
}


class Mailbox:
    name = "mail"

    def deliver(self, _events: Sequence[Event]) -> None:
        raise AssertionError("its thread was not started")


class Watching:
    """A monitor with one recipient, which may be restarted."""

    def __init__(self, folder: Path) -> None:
        (folder / "watch").mkdir()
        self.cluster = cluster(var_directory=folder)
        self.shown: list[Event] = []
        self.restart()

    def restart(self) -> None:
        self.detector = EventDetector(self.cluster, Watch("", 0), self.shown.append)
        self.notifier = Notifier(Mailbox(), self.detector.lost)
        self.detector.notifiers.append(self.notifier)

    def at(self, second: float, **situation: Any) -> list[str]:
        """Return the texts that the recipient gets."""
        moment = {**situation, "taken_at": NOW + second}
        self.notifier._waiting.clear()
        self.detector.see(findings(**moment), snapshot(**moment))
        return [event.text for _at, events in self.notifier._waiting for event in events]

    def silence_all(self, second: float, hours: float, **situation: Any) -> None:
        """Silence the alerts of a situation."""
        for alert in snapshot(**situation, taken_at=NOW + second).warnings:
            time.sleep(0.002)  # entries of the journal are named by the millisecond
            silences.silence(self.cluster, alert, hours, "disk ordered", "anna", now=NOW + second)


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    made = Watching(tmp_path)
    assert ["HEALTHY: Indico is writable; a is primary, b follows."] == made.at(0, **HEALTHY)
    return made


def test_an_alert_that_comes_back_while_it_is_silenced_is_sent_to_nobody_and_still_shown(
    watching: Watching,
) -> None:
    assert "secondary b is stopped" in watching.at(1, **SECONDARY_KILLED)
    watching.silence_all(2, 1, **SECONDARY_KILLED)
    for second in range(2, 100):
        watching.shown.clear()
        back = second % 20 < 10
        assert [] == [
            each
            for each in watching.at(second, **(HEALTHY if back else SECONDARY_KILLED))
            if not each.startswith("HEALTHY")
        ]
    texts = [event["text"] for event in watching.detector._events]  # in events.jsonl
    assert 1 < texts.count("secondary b is stopped")
    assert any(text.startswith("DEGRADED") for text in texts)


def test_an_alert_that_still_holds_when_its_silence_ends_is_sent_even_after_a_restart(
    watching: Watching,
) -> None:
    watching.at(1, **SECONDARY_KILLED)
    watching.silence_all(2, 1, **SECONDARY_KILLED)
    assert [] == watching.at(3, **SECONDARY_KILLED)
    watching.restart()
    assert [] == watching.at(3600, **SECONDARY_KILLED)
    assert {"secondary b is stopped", "primary a has no follower"} == set(
        watching.at(3603, **SECONDARY_KILLED)
    )
    assert watching.shown[-1].detail.startswith("its silence has ended.")
    assert [] == watching.at(3604, **SECONDARY_KILLED)


def test_an_alert_that_is_over_before_its_silence_ends_is_not_sent(watching: Watching) -> None:
    watching.at(1, **SECONDARY_KILLED)
    watching.silence_all(2, 1, **SECONDARY_KILLED)
    for second in range(3, 10):
        watching.at(second, **HEALTHY)
    assert [] == watching.at(3700, **HEALTHY)


def test_another_alert_and_a_worse_state_are_sent_although_some_alerts_are_silenced(
    watching: Watching,
) -> None:
    watching.at(1, **SECONDARY_KILLED)
    watching.silence_all(2, 1, **SECONDARY_KILLED)
    sent = watching.at(3, **PRIMARY_KILLED)
    assert "primary a is stopped" in sent
    assert any(text.startswith("DOWN") for text in sent)


def test_a_critical_alert_can_be_silenced_but_the_state_down_is_sent(watching: Watching) -> None:
    watching.silence_all(0, 1, **PRIMARY_KILLED)
    (sent,) = watching.at(1, **PRIMARY_KILLED)
    assert sent.startswith("DOWN: Nothing can be saved")


def ends(of: Cluster) -> list[Operation]:
    """Return the ends of silences in the journal."""
    return [each for each in journal.read(of)[0] if each.plan.operation == silences.END]


def test_a_silence_ends_when_its_alert_has_been_gone_for_five_minutes(watching: Watching) -> None:
    watching.at(1, **SECONDARY_KILLED)
    watching.silence_all(2, 72, **SECONDARY_KILLED)
    watching.at(3, **SECONDARY_KILLED)
    watching.at(4, **HEALTHY)
    watching.restart()
    watching.at(303, **HEALTHY)
    assert [] == ends(watching.cluster)
    watching.at(305, **HEALTHY)
    deadline = time.monotonic() + 10
    while not ends(watching.cluster):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (entry,) = ends(watching.cluster)
    assert ("monitor", "the alert has been gone for 5 minutes") == (entry.actor, entry.plan.reason)
    assert {} == active(silences.read(watching.cluster), NOW + 306)
    assert "secondary b is stopped" in watching.at(306, **SECONDARY_KILLED)


def test_a_silence_lasts_while_its_alert_comes_and_goes_or_nothing_can_be_probed(
    watching: Watching,
) -> None:
    watching.at(1, **SECONDARY_KILLED)
    watching.silence_all(2, 72, **SECONDARY_KILLED)
    for second in range(10, 2000, 250):
        watching.at(second, **HEALTHY)
        watching.at(second + 240, **SECONDARY_KILLED)
    watching.at(2010, **UNKNOWN)
    watching.at(2400, **UNKNOWN)
    watching.at(2401, **HEALTHY)
    assert "secondary b is stopped" not in watching.at(2410, **SECONDARY_KILLED)
    assert [] == ends(watching.cluster)


def test_a_silence_ends_although_the_journal_cannot_be_written(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def fail(*_arguments: object, **_options: object) -> None:
        tried.set()
        raise OperatorError("the journal can't be written", "no space left")

    watching.silence_all(2, 72, **SECONDARY_KILLED)
    monkeypatch.setattr(journal, "note", fail)
    watching.at(4, **HEALTHY)
    watching.at(305, **HEALTHY)
    assert tried.wait(10)
    assert "secondary b is stopped" in watching.at(306, **SECONDARY_KILLED)


def test_recipients_of_a_worse_state_hear_that_it_is_over_although_the_rest_is_silenced(
    watching: Watching,
) -> None:
    watching.at(1, **SECONDARY_KILLED)
    watching.silence_all(2, 1, **SECONDARY_KILLED)
    assert any(text.startswith("DOWN") for text in watching.at(3, **ALL_STOPPED))
    sent = [text for each in range(4, 10) for text in watching.at(each, **SECONDARY_KILLED)]
    assert 1 == sum(text.startswith("DEGRADED") for text in sent)
    sent = [text for each in range(10, 20) for text in watching.at(each, **HEALTHY)]
    assert 1 == sum(text.startswith("HEALTHY") for text in sent)


def test_the_state_of_a_critical_problem_is_sent_although_its_alert_is_silenced(
    watching: Watching,
) -> None:
    watching.silence_all(0, 1, **DIVERGED)
    (sent,) = watching.at(1, **DIVERGED)
    assert sent.startswith("DEGRADED")


def test_the_end_of_a_critical_alert_is_sent_although_its_text_is_silenced_as_a_warning(
    watching: Watching,
) -> None:
    alert = next(each for each in snapshot(**PRIMARY_KILLED).warnings if each.subject == "a")
    assert Level.CRITICAL is alert.level
    warning = dataclasses.replace(alert, level=Level.WARNING)
    silences.silence(watching.cluster, warning, 1, "x", "anna", now=NOW)
    assert alert.text in watching.at(1, **PRIMARY_KILLED)
    sent = [text for each in range(2, 10) for text in watching.at(each, **HEALTHY)]
    assert f"no longer: {alert.text}" in sent


def test_a_silence_that_somebody_ends_is_over_at_once(watching: Watching) -> None:
    watching.at(1, **SECONDARY_KILLED)
    watching.silence_all(2, 1, **SECONDARY_KILLED)
    assert [] == watching.at(3, **SECONDARY_KILLED)
    alert = next(each for each in snapshot(**SECONDARY_KILLED).warnings if each.subject == "b")
    made = active(silences.read(watching.cluster), NOW + 3)[key_of(alert)]
    silences.end(watching.cluster, [made], "repaired after all", "ben")
    assert ["secondary b is stopped"] == watching.at(4, **SECONDARY_KILLED)


def test_a_silence_has_a_name_a_reason_and_an_end_within_the_limit(tmp_path: Path) -> None:
    of = cluster(var_directory=tmp_path)
    alert = snapshot(**SECONDARY_KILLED).warnings[0]
    for hours in (0, -1, MOST_HOURS + 1, float("nan"), float("inf")):
        with pytest.raises(OperatorError, match="up to 72 hours"):
            silences.silence(of, alert, hours, "x", "anna", now=NOW)
    made = silences.silence(of, alert, 2, "disk ordered", "anna", now=NOW)
    assert "silenced by anna for 1 h 30 min more: disk ordered" == made.text(NOW + 1801)
    entries, _notices = journal.read(of)
    assert {key_of(alert): made} == active(silences.read(of), NOW)
    assert {} == active(silences.read(of), NOW + 7200)
    assert ("silence", "anna", "disk ordered") == (
        entries[0].plan.operation,
        entries[0].actor,
        entries[0].plan.reason,
    )
    assert alert == named([alert], name_of(key_of(alert)))
    with pytest.raises(OperatorError, match="no alert"):
        named([alert], "00000000")


def keep(of: Cluster, kind: str, began: float, **told: JsonValue) -> None:
    """Write an entry of the journal that began at a moment."""
    plan = Plan(kind, "b", "", "x", 0, (), None, ())
    begun = operation.new("demo", plan, "eve", began)
    journal.append(of, begun.later(ended=began, outcome=Outcome.DONE, told=told))


ABOUT: dict[str, JsonValue] = {"level": "warning", "subject": "b", "text": "x"}
KEY = ("warning", "b", "x")


@pytest.mark.parametrize("until", [9e10, 10**400, 10**10, float("inf")])
def test_no_line_of_the_journal_silences_for_longer_than_the_limit(
    tmp_path: Path, until: float
) -> None:
    of = cluster(var_directory=tmp_path)
    keep(of, silences.SILENCE, NOW, **ABOUT, until_at=until)
    keep(of, silences.SILENCE, 9e10, **ABOUT, until_at=until)
    for each in active(silences.read(of), NOW).values():
        assert each.until <= NOW + 3600 * MOST_HOURS
    assert {} == active(silences.read(of), NOW + 3600 * MOST_HOURS)


@pytest.mark.parametrize("until", [None, "1e10", True, [], float("nan"), -(10**400), {}])
def test_a_line_of_the_journal_without_an_end_silences_nothing(
    tmp_path: Path, until: JsonValue
) -> None:
    of = cluster(var_directory=tmp_path)
    keep(of, silences.SILENCE, NOW, level=7, until_at=NOW + 60)
    keep(of, silences.SILENCE, NOW + 1, **ABOUT, until_at=until)
    keep(of, silences.END, NOW + 2, ends=until)
    assert {} == active(silences.read(of), NOW + 3)


def test_an_end_counts_although_the_clock_of_its_host_is_behind(tmp_path: Path) -> None:
    of = cluster(var_directory=tmp_path)
    keep(of, silences.END, NOW - 120, ends=[f"{operation.stamp(NOW)}Z-silence"])
    keep(of, silences.SILENCE, NOW, **ABOUT, until_at=NOW + 3600)  # as sorted by these clocks
    assert {} == active(silences.read(of), NOW + 1)
    keep(of, silences.SILENCE, NOW - 30, **ABOUT, until_at=NOW + 3600)
    assert {KEY} == active(silences.read(of), NOW + 1).keys()


def test_an_end_ends_earlier_silences_of_its_alert_and_no_later_one(tmp_path: Path) -> None:
    of = cluster(var_directory=tmp_path)
    keep(of, silences.SILENCE, NOW - 2, **ABOUT, until_at=NOW + 7200)
    keep(of, silences.SILENCE, NOW - 1, **ABOUT, until_at=NOW + 3600)
    keep(of, silences.SILENCE, NOW, **{**ABOUT, "text": "y"}, until_at=NOW + 3600)
    found = active(silences.read(of), NOW + 1)
    keep(of, silences.SILENCE, NOW + 1, **ABOUT, until_at=NOW + 3600)
    silences.end(of, [found[KEY]], "repaired", "ben")
    left = active(silences.read(of), NOW + 2)
    assert {("warning", "b", "y"), KEY} == left.keys()
    time.sleep(0.002)  # entries of the journal are named by the millisecond
    silences.end(of, left.values(), "repaired", "ben")
    assert {} == active(silences.read(of), NOW + 2)


def test_only_lines_about_silences_are_decoded_and_only_after_the_journal_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = cluster(var_directory=tmp_path)
    for number in range(20):
        keep(of, "switchover", NOW - 100 + number)
    keep(of, silences.SILENCE, NOW, **ABOUT, until_at=NOW + 3600)
    decoded: list[Any] = []
    real = operation.operation_from_json

    def decode(line: Any) -> Operation:
        decoded.append(line)
        return real(line)

    monkeypatch.setattr(operation, "operation_from_json", decode)
    for _time in range(5):
        assert {KEY} == active(silences.read(of), NOW + 1).keys()
    assert 1 == len(decoded)
    keep(of, "switchover", NOW + 1)
    assert {KEY} == active(silences.read(of), NOW + 1).keys()
    assert 2 == len(decoded)


def test_events_of_other_kinds_are_never_silenced(watching: Watching) -> None:
    watching.silence_all(0, 1, **PRIMARY_KILLED)
    sent = [text for second in range(1, 15) for text in watching.at(second, **PRIMARY_KILLED)]
    assert any(text.startswith("Failover") for text in sent)
    assert any(event.kind is Kind.ALERT for event in watching.shown)
