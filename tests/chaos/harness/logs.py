"""Read the logs of the clients into histories.  No I/O but the reading of lines."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from typing import Any

from histories import Lists, Transaction
from registers import Access
from traffic import Outcome

NUMBERS = frozenset({"append", "look"})
"""The kinds of transactions that concern lists; the others concern values."""


@dataclasses.dataclass(frozen=True)
class History:
    """What the clients of a run did.

    Attributes:
        transactions: on lists.
        accesses: of values.
        failed: how many transactions failed before they had read everything.
    """

    transactions: tuple[Transaction, ...]
    accesses: tuple[Access, ...]
    failed: int

    def __add__(self, other: History) -> History:
        return History(
            self.transactions + other.transactions,
            self.accesses + other.accesses,
            self.failed + other.failed,
        )


def read_log(lines: Iterable[str]) -> History:
    """Return what one log tells.

    A call without an answer has an unknown outcome.  The last line of a client that was killed may
    be torn: what it would have told had no effect, unless it is an answer.

    Args:
        lines: with their ends.
    """
    calls: dict[int, dict[str, Any]] = {}
    answers: dict[int, dict[str, Any]] = {}
    failed = 0
    for line in lines:
        if not line.endswith("\n"):
            continue
        values = json.loads(line)
        if "call" in values:
            calls[values["call"]] = values
        elif "answer" in values:
            answers[values["answer"]] = values
        else:
            failed += 1
    known: dict[tuple[str, str], tuple[int, ...]] = {}
    transactions, accesses = [], []
    for number, call in calls.items():
        answer = answers.get(number, {"outcome": "unknown", "ended": math.inf, "server": ""})
        if call["kind"] in NUMBERS:
            transactions.append(_transaction(number, call, answer, known))
        else:
            accesses.append(_access(number, call, answer))
    return History(tuple(transactions), tuple(accesses), failed)


def _transaction(
    number: int,
    call: dict[str, Any],
    answer: dict[str, Any],
    known: dict[tuple[str, str], tuple[int, ...]],
) -> Transaction:
    read = {}
    for key, (same, news) in call["read"].items():
        place = call["session"], key
        read[key] = known[place] = (*known.get(place, ())[:same], *news)
    return Transaction(
        call["session"],
        number,
        Outcome(answer["outcome"]),
        call["began"],
        answer["ended"],
        read,
        tuple(call["to"]),
        answer["server"],
        answer.get("error", ""),
    )


def _access(number: int, call: dict[str, Any], answer: dict[str, Any]) -> Access:
    ((key, saw),) = call["read"].items()
    return Access(
        number,
        key,
        bool(call["to"]),
        saw,
        Outcome(answer["outcome"]),
        call["began"],
        answer["ended"],
        call["session"],
        answer.get("error", ""),
    )


def final_state(text: str) -> tuple[Lists, dict[str, int]]:
    """Return the lists and the values at the end, of what ``prepare.py show`` prints."""
    found: dict[str, list[int]] = json.loads(text)
    lists = {key: tuple(each) for key, each in found.items() if key.startswith("list-")}
    values = {key: each[0] for key, each in found.items() if key.startswith("value-")}
    return lists, values
