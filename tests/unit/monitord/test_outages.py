"""An outage lasts from the last save before it to the first one after it, as users saw it."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies
from situations import (
    FAILED_OVER,
    HEALTHY,
    ONE_SECOND,
    PRIMARY_KILLED,
    SPLIT_BRAIN,
    TID,
    TID_TIME,
    UNKNOWN,
    behind,
    cluster,
    instance,
    server,
    snapshot,
    state,
)

from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.monitord import memory as memories
from indico_zodbrepl.monitord import program
from indico_zodbrepl.monitord.events import Event, Weight
from indico_zodbrepl.monitord.memory import Memory
from indico_zodbrepl.monitord.outage_records import OutageJournal
from indico_zodbrepl.monitord.outages import outages, widest
from indico_zodbrepl.operations import journal
from indico_zodbrepl.operations.outages import Outage, by_operation, from_figures, of_entry
from indico_zodbrepl.probing.answers import Hold, ServerRole


def tid(second: float) -> int:
    """Return the id of a transaction committed that many seconds after TID."""
    return TID + round(second * ONE_SECOND)


def primary(name: str, last: float, epoch: int, **more: Any) -> dict[str, Any]:
    """Return a situation in which a node leads and its last save was at a second."""
    if name == "a":
        return {
            "servers": {"a": server("a", tid(last), **more), "b": server("b", tid(last))},
            "comparisons": {"b": behind(0, tid(last))},
        }
    new = server(
        "b",
        tid(last),
        role=ServerRole.PRIMARY,
        upstream=None,
        connected=None,
        read_only=False,
        epoch=epoch,
        **more,
    )
    return {**FAILED_OVER, "servers": {**FAILED_OVER["servers"], "b": new}}


def lost(last: float) -> dict[str, Any]:
    """Return a situation in which a is dead and b has everything up to a second."""
    return {
        **PRIMARY_KILLED,
        "servers": {**PRIMARY_KILLED["servers"], "b": server("b", tid(last), connected=False)},
    }


class Watching:
    """A monitor that is shown one situation each second; it asks for the cluster's ``saves``."""

    def __init__(self, saves: Iterable[float] = (), *, can_tell: bool = True) -> None:
        self.memory = Memory()
        self.saves = sorted(map(tid, saves))
        self.can_tell = can_tell
        self.asked = 0

    def later(self, after: int) -> int | None:
        self.asked += 1
        index = bisect.bisect_right(self.saves, after)
        return self.saves[index] if self.can_tell and index < len(self.saves) else None

    def at(self, second: float, epoch_began: float | None = None, **found: Any) -> list[Event]:
        taken = snapshot(**found, taken_at=TID_TIME + second)
        began = None if epoch_began is None else TID_TIME + epoch_began
        self.memory = memories.from_json(self.memory.to_json())  # as over a restart
        return list(outages(self.memory, taken, self.later, began))

    def failover(self, first_save: float, until: float) -> list[Event]:
        """Show a failover: saves until 0.4 s, a dead from 1 s, b leads from 197 s."""
        self.at(0, **primary("a", 0, 1))
        told = [event for each in range(1, 197) for event in self.at(each, **lost(0.4))]
        assert [] == told
        for second in range(197, round(until) + 1):
            last = first_save if second >= first_save else 0.4
            told += self.at(second, **primary("b", last, 2))
        return told


def the(events: list[Event]) -> Outage:
    assert 1 == len(events)
    found = events[0].outage
    assert found is not None
    return found


def test_a_failover_by_hand_counts_from_the_last_save_to_the_first_one_after_it() -> None:
    watching = Watching([0, 0.4, 198.3, 198.5])
    told = watching.failover(198.3, 199)
    found = the(told)
    assert 197.9 == pytest.approx(found.between, abs=0.01)
    assert (True, True) == (found.was_noticed, found.exact)
    assert "198 s" == found.short
    assert "saving works again after 198 s without a save" == told[0].text
    assert "the last save (2026-11-20 11:06:07 UTC) to the first one" in told[0].detail
    assert (Weight.GOOD, "b", "a") == (told[0].weight, told[0].subject, told[0].former)
    assert [] == watching.at(200, **primary("b", 199, 2))


def test_without_a_save_afterwards_it_says_that_nobody_waited_and_overstates_nothing() -> None:
    watching = Watching([0, 0.4])
    assert [] == watching.failover(1000, 256)
    found = the(watching.at(257, **primary("b", 0.4, 2)))
    assert (None, False) == (found.first_save, found.was_noticed)
    assert found.text.startswith(
        "at most 198 s: saving was impossible for 196 s. No save is known to have waited"
    )
    assert found.text.endswith("none followed within a minute")


def test_saves_hours_before_and_after_a_night_s_outage_do_not_make_it_longer() -> None:
    watching = Watching([-20000, 230])
    watching.at(0, **primary("a", -20000, 1))
    for second in range(1, 197):
        watching.at(second, **lost(-20000))
    for second in range(197, 230):
        assert [] == watching.at(second, **primary("b", -20000, 2))
    found = the(watching.at(231, **primary("b", 230, 2)))
    assert 20230 == pytest.approx(found.between)
    assert "at most 198 s" == found.short


def test_a_primary_that_comes_back_by_itself_is_an_outage_too() -> None:
    watching = Watching([0, 0.2, 30.2])
    watching.at(0, **primary("a", 0, 1))
    for second in range(1, 30):
        watching.at(second, **lost(0.2))
    told = watching.at(31, **primary("a", 30.2, 1))
    assert 30 == pytest.approx(the(told).between, abs=0.01)
    assert ("a", "a") == (told[0].subject, told[0].former)


def test_paused_writes_and_instances_that_cannot_save_count_as_an_outage() -> None:
    for wrong in (
        primary("a", 0, 1, held=Hold.OPERATOR),
        {"indico": {name: instance(name, read_only=True) for name in ("one", "two")}},
    ):
        watching = Watching([0, 10.5])
        watching.at(0, **primary("a", 0, 1))
        for second in range(1, 10):
            watching.at(second, **wrong)
        assert 10.5 == pytest.approx(the(watching.at(11, **primary("a", 10.5, 1))).between)


def test_a_failover_between_two_checks_is_the_widest_gap_between_its_transactions() -> None:
    watching = Watching([0, 0.1, 0.2, 0.3, 0.95, 1.05])
    watching.at(0, **primary("a", 0, 1))
    found = the(watching.at(1, **primary("b", 1.05, 2)))
    assert 0.65 == pytest.approx(found.between, abs=0.001)
    assert 0.0 == found.impossible
    assert "0.65 s" == found.short


def test_a_missed_probe_is_no_outage() -> None:
    watching = Watching([0, 5])
    watching.at(0, **HEALTHY)
    watching.at(1, **lost(0))
    watching.at(2, **HEALTHY)
    assert [] == watching.at(6, **primary("a", 5, 1))
    assert watching.memory.outage is None


def test_a_storage_that_cannot_list_transactions_gives_a_rough_length() -> None:
    watching = Watching(can_tell=False)
    found = the(watching.failover(198.3, 199))
    assert (False, True) == (found.exact, found.was_noticed)
    assert found.text.endswith("; known to about a second")


def test_a_monitor_that_did_not_run_finds_the_failover_by_the_beginning_of_its_epoch() -> None:
    watching = Watching([0, 0.4, 30.4, 30.6, 31])
    watching.at(0, **primary("a", 0, 1))
    found = the(watching.at(600, epoch_began=28, **primary("b", 31, 2)))
    assert 30 == pytest.approx(found.between, abs=0.01)
    assert (None, "at most 30 s") == (found.impossible, found.short)
    assert "the monitor did not run all the time" in found.text


def test_a_failover_long_after_the_monitor_stopped_is_not_guessed() -> None:
    watching = Watching([0, 5, *range(100, 900), 930])
    watching.at(0, **primary("a", 0, 1))
    assert [] == watching.at(1000, epoch_began=925, **primary("b", 930, 2))


def test_a_split_brain_and_a_round_without_any_answer_begin_and_end_nothing() -> None:
    for strange in (SPLIT_BRAIN, UNKNOWN):
        watching = Watching([0])
        watching.at(0, **HEALTHY)
        assert [] == watching.at(1, **strange)
        assert watching.memory.outage is None


def test_no_more_transactions_are_asked_for_than_are_needed_to_know_the_longest_gap() -> None:
    saves, asked = [tid(0), tid(8), *(tid(8 + each / 100) for each in range(1, 200))], []

    def later(after: int) -> int:
        asked.append(after)
        return saves[saves.index(after) + 1]

    assert (tid(0), tid(8), True) == widest(later, tid(0), saves[-1])
    assert [tid(0)] == asked


def test_only_so_many_transactions_are_asked_for() -> None:
    asked: list[int] = []

    def later(after: int) -> int:
        asked.append(after)
        return after + 1

    assert (0, 10**9, False) == widest(later, 0, 10**9), "the longest may be among the others"
    assert 100 == len(asked)


def test_many_saves_in_the_second_before_an_outage_do_not_make_it_shorter() -> None:
    watching = Watching([*(0.1 + each / 300 for each in range(150)), 198.3])
    watching.at(0, **primary("a", 0, 1))
    for second in range(1, 198):
        watching.at(second, **lost(0))
    found = the(watching.at(199, **primary("b", 198.3, 2)))
    assert 197.7 <= found.longest <= 200
    assert (False, True) == (found.exact, found.was_noticed)


def test_a_program_that_saves_while_no_user_can_does_not_make_an_outage_shorter() -> None:
    """Such as Indico's scheduler, which does not need an instance."""
    down = {name: instance(name, read_only=True) for name in ("one", "two")}
    watching = Watching([0, 90, 190, 300.5])
    watching.at(0, **primary("a", 0, 1))
    for second in range(1, 300):
        saved = max(each for each in (0, 90, 190) if each <= second)
        assert [] == watching.at(second, **{**primary("a", saved, 1), "indico": down})
    found = the(watching.at(301, **primary("a", 300.5, 1)))
    assert 300 == pytest.approx(found.impossible)
    assert (False, "at most 302 s") == (found.was_noticed, found.short)


def test_a_missed_probe_asks_the_primary_nothing() -> None:
    watching = Watching()
    watching.at(0, **HEALTHY)
    watching.at(1, **lost(0))
    assert [] == watching.at(2, **HEALTHY)
    asked = watching.asked
    assert [] == watching.at(6, **primary("a", 5, 1))
    assert asked == watching.asked


def test_the_journal_keeps_an_outage_and_shows_it_with_the_operation_that_ended_it(
    tmp_path: Path,
) -> None:
    of = cluster(var_directory=tmp_path)
    OutageJournal(of).deliver(Watching([0, 0.4, 198.3]).failover(198.3, 199))
    entries, notices = journal.read(of)
    assert [] == notices
    found = of_entry(entries[0])
    assert found is not None
    assert ("monitor", "b", "a") == (
        entries[0].actor,
        entries[0].plan.target,
        entries[0].plan.source,
    )
    assert 197.9 == pytest.approx(found.between, abs=0.01)
    with journal.journaled(of, "failover", "b", "a is gone") as told:
        told.figures["writable_after_seconds"] = 0.09
    during = journal.read(of)[0][1].later(began=TID_TIME + 196, ended=TID_TIME + 197)
    later = during.later(began=TID_TIME + 300, ended=TID_TIME + 301, identifier="later")
    shown = by_operation([entries[0], during, later])
    assert found == shown[during.identifier] == shown[entries[0].identifier]
    assert "later" not in shown


@given(
    last=strategies.floats(1.6e9, 1.9e9),
    waited=strategies.floats(0, 1e5),
    impossible=strategies.floats(0, 1e5),
)
def test_the_alert_and_the_journal_tell_the_same_length(
    last: float, waited: float, impossible: float
) -> None:
    told = Outage(last, last + waited, last, last + waited, impossible, exact=True)
    kept = from_figures(told.began, told.ended, told.figures())
    assert kept is not None
    assert told.to_json() == kept.to_json()


def test_of_several_hosts_monitors_the_one_of_the_cluster_file_writes_the_journal(
    tmp_path: Path,
) -> None:
    """Another one may run in a terminal."""
    hosts = {
        "hosts": (ClusterHost("h1", "127.0.0.1", 1), ClusterHost("h2", "127.0.0.1", 2)),
        "watch": Watch("127.0.0.1", 8190, on="h1"),
    }
    for here, writes in (("h1", True), ("h2", False)):
        _plan, does = program.plan(cluster(var_directory=tmp_path, here=here, **hosts))
        assert writes == ("write each outage into the journal" in does)
    assert "write each outage into the journal" in program.plan(cluster(var_directory=tmp_path))[1]


def test_an_assignment_alone_is_no_change_of_the_primary() -> None:
    watching = Watching([0, 1])
    watching.at(0, **primary("a", 0, 1))
    assert [] == watching.at(1, states={"b": state("b", role=Role.SECONDARY)})
