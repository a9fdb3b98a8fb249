"""What a failed program said is told by the lines that say why."""

from __future__ import annotations

from indico_zodbrepl.bench.processes27 import telling

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "a.py", line 1, in main',
    "    work()",
    '  File "b.py", line 7, in work',
    "    commit()",
]
TABLE = [f"    {number} | {number}" for number in range(5000)]


def test_of_an_error_that_has_a_long_table_its_own_words_are_reported() -> None:
    found = list(telling(["a warning", *TRACEBACK, "ConflictError: these objects:", *TABLE]))
    assert "ConflictError: these objects:" in found
    assert "    commit()" in found
    assert len(found) <= 12


def test_of_several_errors_the_last_one_is_reported() -> None:
    found = telling([*TRACEBACK, "KeyError: 1", *TRACEBACK, "ValueError: wrong", *TABLE])
    assert "ValueError: wrong" in found
    assert "KeyError: 1" not in found


def test_else_the_last_lines_are_reported() -> None:
    assert ["c"] == telling(["c"])
    assert [] == telling([])
    assert telling([*TRACEBACK, "ValueError: wrong"])[-1] == "ValueError: wrong"
    assert [str(number) for number in range(8, 20)] == telling(list(map(str, range(20))))
