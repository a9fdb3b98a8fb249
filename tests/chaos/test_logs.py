"""The logs of the clients become histories."""

from __future__ import annotations

import json
import math
from typing import Any

from logs import final_state, read_log
from traffic import Outcome


def line(**values: Any) -> str:
    return json.dumps(values) + "\n"


def call(number: int, kind: str, read: dict[str, Any], *to: str, session: str = "h1/1") -> str:
    return line(
        call=number, session=session, kind=kind, began=float(number), read=read, to=list(to)
    )


def answer(number: int, outcome: str = "acknowledged") -> str:
    return line(answer=number, outcome=outcome, ended=number + 0.5, server="a", error="")


def test_lists_are_put_together_from_what_was_new_in_each_read() -> None:
    log = [
        call(1, "append", {"x": [0, [7, 8]], "y": [0, []]}, "x"),
        answer(1),
        call(2, "look", {"x": [2, [1]], "y": [0, [3]]}),
        answer(2),
        call(3, "look", {"x": [1, [9]]}),
        answer(3, "refused"),
        call(4, "look", {"x": [0, [5]]}, session="h1/2"),
        answer(4),
    ]
    found = read_log(log).transactions
    assert [
        {"x": (7, 8), "y": ()},
        {"x": (7, 8, 1), "y": (3,)},
        {"x": (7, 9)},
        {"x": (5,)},
    ] == [each.read for each in found]
    assert (("x",), "h1/1", 1.0, 1.5) == (
        found[0].appended,
        found[0].session,
        found[0].began,
        found[0].ended,
    )
    assert Outcome.REFUSED is found[2].outcome


def test_a_call_without_an_answer_has_an_unknown_outcome() -> None:
    torn = answer(2).rstrip("\n")[:-4]
    for log in ([call(2, "write", {"v": 0}, "v")], [call(2, "write", {"v": 0}, "v"), torn]):
        (found,) = read_log(log).accesses
        assert (Outcome.UNKNOWN, math.inf) == (found.outcome, found.ended)


def test_accesses_tell_what_they_saw() -> None:
    log = [call(1, "write", {"v": 9}, "v"), answer(1), call(2, "read", {"v": 1}), answer(2)]
    write, read = read_log(log).accesses
    assert (True, 9, 1, "v") == (write.writes, write.saw, write.left, write.key)
    assert (False, 1, 1) == (read.writes, read.saw, read.left)


def test_what_failed_before_it_could_have_an_effect_is_counted() -> None:
    found = read_log([line(failed="ClientDisconnected", began=1.0, ended=2.0)])
    assert (1, ()) == (found.failed, found.transactions)
    assert 2 == (found + found).failed


def test_the_end_has_lists_and_values() -> None:
    text = json.dumps({"list-0-0": [1, 2], "value-0-0": [3], "own-h1": [4]})
    assert ({"list-0-0": (1, 2)}, {"value-0-0": 3}) == final_state(text)
