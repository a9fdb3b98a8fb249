"""What counts as a loss of what Indico said it saved."""

from __future__ import annotations

import dataclasses

import pytest
from histories import Kind
from traffic import Outcome
from web_writes import ATTACHED, CHANGED, CREATED, WebWrite, excused, judge

SAVED, UNKNOWN = Outcome.ACKNOWLEDGED, Outcome.UNKNOWN


def write(number: int, what: str, place: str, value: str, outcome: Outcome = SAVED) -> WebWrite:
    return WebWrite(number, "one", what, place, value, outcome, number, number + 0.5, 303)


HISTORY = [
    write(1, CREATED, "", "first"),
    write(2, CREATED, "", "second", UNKNOWN),
    write(3, CHANGED, "7", "old"),
    write(4, CHANGED, "7", "new"),
    write(5, ATTACHED, "/a.bin", "digest"),
]
TITLES = {"1": "first", "7": "new"}
FILES = {"/a.bin": "digest"}


def test_what_is_there_once_is_right_and_so_is_what_was_not_acknowledged() -> None:
    assert [] == list(judge(HISTORY, TITLES, FILES))
    assert [] == list(judge(HISTORY, {**TITLES, "2": "second"}, FILES))
    maybe = [*HISTORY, write(6, CHANGED, "7", "newest", UNKNOWN)]
    for title in ("new", "newest"):
        assert [] == list(judge(maybe, {**TITLES, "7": title}, FILES))


@pytest.mark.parametrize(
    ("titles", "files", "kind", "number"),
    [
        ({"7": "new"}, FILES, Kind.LOST, 1),
        ({**TITLES, "2": "first"}, FILES, Kind.TWICE, 1),
        ({**TITLES, "2": "second", "3": "second"}, FILES, Kind.TWICE, 2),
        ({**TITLES, "7": "old"}, FILES, Kind.LOST, 4),
        ({"1": "first"}, FILES, Kind.LOST, 4),
        (TITLES, {}, Kind.LOST, 5),
        (TITLES, {"/a.bin": "other"}, Kind.LOST, 5),
    ],
)
def test_what_is_lost_or_there_twice_is_found(
    titles: dict[str, str], files: dict[str, str], kind: Kind, number: int
) -> None:
    (found,) = judge(HISTORY, titles, files)
    assert (found.kind, found.numbers) == (kind, (number,))


def test_the_order_of_changes_is_that_of_their_times() -> None:
    turned = [dataclasses.replace(each, began=-each.began) for each in HISTORY]
    (found,) = judge(turned, TITLES, FILES)
    assert found.numbers == (3,)


def test_what_only_a_recovery_export_has_is_no_loss() -> None:
    exports = b"...first...new...5.bin..."
    left = excused(HISTORY, exports)
    assert [] == list(judge(left, {"7": "old"}, {}))
    (found,) = judge(left, {}, {})  # the earlier title is in no export
    assert found.numbers == (3,)
    assert HISTORY == excused(HISTORY, b"...second...")
