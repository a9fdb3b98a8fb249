"""The record that the companion of a database server keeps of its acknowledged commits."""

from __future__ import annotations

import pytest

from indico_zodbrepl.cluster.model import Synchronous, SyncLevel
from indico_zodbrepl.host.commit_keeper import weaker
from indico_zodbrepl.host.promise import Promise

WANTED = Synchronous(1, SyncLevel.WRITE)
KEPT = Promise(3, "synchronous", 1, "write")


@pytest.mark.parametrize(
    ("known", "certain"),
    [
        (None, None),
        (Promise(2, "alone", 1, "write"), None),  # of an epoch that is over
        (KEPT, None),
        (Promise(3, "refusing", 2, "fsync"), None),
        (Promise(3, "alone", 1, "write"), Promise(3, "alone", 1, "write")),
        (Promise(3, "off", 0, "fsync"), Promise(3, "off", 0, "write")),
        (Promise(3, "synchronous", 2, "receive"), Promise(3, "waiting", 1, "receive")),
    ],
)
def test_a_record_stays_weaker_until_the_followers_have_everything(
    known: Promise | None, certain: Promise | None
) -> None:
    assert certain == weaker(known, 3, WANTED)


def test_more_secondaries_are_promised_only_once_they_have_everything() -> None:
    assert Promise(3, "waiting", 1, "write") == weaker(KEPT, 3, Synchronous(2, SyncLevel.WRITE))
