"""What is recorded of acknowledged commits while they change."""

from __future__ import annotations

import pytest

from indico_zodbrepl.etcd.keys import Sync
from indico_zodbrepl.host.acknowledging import describe, weakest
from indico_zodbrepl.probing.answers import Acknowledging, AckState

ONE = Sync(3, 1, "fsync", members=("b", "c"))


@pytest.mark.parametrize(
    ("before", "wanted", "meanwhile"),
    [
        (ONE, Sync(3, 0, "fsync"), (0, "fsync", False)),
        (Sync(3, 0, "fsync"), ONE, (0, "fsync", False)),
        (ONE, Sync(3, 2, "receive"), (1, "receive", False)),
        (Sync(3, 1, "write", alone=True), ONE, (1, "write", True)),
    ],
)
def test_the_weaker_promise_holds_during_a_change(
    before: Sync, wanted: Sync, meanwhile: tuple[int, str, bool]
) -> None:
    found = weakest(before, wanted)
    assert meanwhile == (found.count, found.level, found.alone)


def test_the_state_of_acknowledged_commits_in_words() -> None:
    found = Acknowledging(AckState.SYNCHRONOUS, 1, "fsync", 10.0, "refuse")
    assert describe(found) == (
        "commits wait for 1 secondary (fsync): synchronous; without them they are refused after "
        "10 s"
    )
    assert describe(Acknowledging(AckState.OFF, 0, "fsync", 10.0, "refuse")) == (
        "commits wait for no secondary"
    )
