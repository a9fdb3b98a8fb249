"""When followers are compared with the primary beside the probes, and what comes of it."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest
from situations import HEALTHY, SECONDARY_KILLED, TID, cluster, snapshot

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.verifying import Verified
from indico_zodbrepl.monitor.snapshot import OpenOperation, Snapshot
from indico_zodbrepl.monitord.verifier import EVERY, Verifier, due
from indico_zodbrepl.probing.comparison import Membership

NOW = 10_000.0


def seen(situation: dict[str, Any] | None = None, **b: Any) -> Snapshot:
    """A snapshot in which node b is all right, but for the changes."""
    taken = snapshot(**(situation or HEALTHY))
    fine = {"membership": Membership.HELD, "condition": Condition.OK, **b}
    return dataclasses.replace(
        taken,
        nodes=tuple(
            dataclasses.replace(node, **fine) if node.name == "b" else node for node in taken.nodes
        ),
    )


def name_of(taken: Snapshot, last: dict[str, tuple[float, int]] | None = None) -> str | None:
    node = due(taken, last or {}, NOW)
    return None if node is None else node.name


def test_a_follower_that_has_everything_is_compared_once_and_again_when_it_got_more_later() -> None:
    assert "b" == name_of(seen())
    assert name_of(seen(), {"b": (NOW - 10 * EVERY, TID)}) is None
    assert name_of(seen(last_tid=TID + 1), {"b": (NOW - EVERY / 2, TID)}) is None
    assert "b" == name_of(seen(last_tid=TID + 1), {"b": (NOW - EVERY, TID)})


@pytest.mark.parametrize(
    "b",
    [
        {"connected": False},
        {"lag_transactions": 1},
        {"lag_transactions": None},
        {"membership": Membership.DIFFERENT},
        {"membership": None},
        {"condition": None},
        {"condition": Condition.DIVERGED},
    ],
)
def test_a_follower_that_is_not_known_to_have_everything_is_left_alone(b: dict[str, Any]) -> None:
    assert name_of(seen(**b)) is None


def test_nobody_is_compared_with_a_primary_that_is_not_seen_or_while_roles_change() -> None:
    assert name_of(seen(SECONDARY_KILLED)) is None
    assert name_of(dataclasses.replace(seen(), primary=None)) is None
    at_work = OpenOperation("x", "switchover", "b", "me", 0.0, "running", at_work=True)
    assert name_of(dataclasses.replace(seen(), operations=(at_work,))) is None


class Comparing:
    """A comparison that lasts until it is told its end."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer: Verified | OperatorError = Verified("03f0000000000001", "")
        self.may_end = threading.Event()

    def __call__(self, name: str, primary: str) -> Verified | None:
        self.asked.append((name, primary))
        assert self.may_end.wait(60)
        if isinstance(self.answer, OperatorError):
            raise self.answer
        return self.answer


def ended(verifier: Verifier, comparing: Comparing) -> None:
    comparing.may_end.set()
    worker = verifier._worker
    assert worker is not None
    worker.join(60)


def test_a_long_comparison_holds_no_look_up_and_is_not_begun_twice() -> None:
    comparing = Comparing()
    verifier = Verifier(comparing, Commands(cluster(), Path("/srv/indico")))
    assert [[], [], []] == [verifier.look(seen(last_tid=TID + more)) for more in range(3)]
    ended(verifier, comparing)
    assert [("b", "a")] == comparing.asked
    assert [] == verifier.look(seen())


def test_a_divergence_is_reported_with_the_way_back_once() -> None:
    comparing = Comparing()
    comparing.answer = Verified(None, "2 transactions only on node b")
    verifier = Verifier(comparing, Commands(cluster(), Path("/srv/indico")))
    verifier.look(seen())
    ended(verifier, comparing)
    (event,) = verifier.look(seen())
    assert ("lineage", "critical", "b", "2 transactions only on node b") == (
        event.kind,
        event.weight,
        event.subject,
        event.detail,
    )
    assert "rejoin b" in event.hint
    assert [] == verifier.look(seen())


def test_a_comparison_that_fails_is_logged_and_no_event(caplog: pytest.LogCaptureFixture) -> None:
    comparing = Comparing()
    comparing.answer = OperatorError("can't be compared", "a disk hangs")
    verifier = Verifier(comparing, Commands(cluster(), Path("/srv/indico")))
    verifier.look(seen())
    ended(verifier, comparing)
    assert [] == verifier.look(seen())
    assert "a disk hangs" in caplog.text
