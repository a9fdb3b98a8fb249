"""Read the JUnit reports of test suites and describe a run in its closing lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

LINES_OF_A_FAILURE = 12
LINES_OF_ALL_FAILURES = 40
FAILURES_NAMED = 8
# In pytest's account of a failure: the failing line, the error, and the frames.
TELLING_LINE = re.compile(r"[>E] |[^\s:]+:\d+: ")


@dataclass(frozen=True)
class Failure:
    """A failed test, or another defect of a suite's run.

    Attributes:
        test: the suite and the test.
        reason: one line.
        lines: the end of the report about it.
        node: the test as an argument of its program; empty if it cannot be run alone.
    """

    test: str
    reason: str
    lines: tuple[str, ...] = ()
    node: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result of a suite.

    Attributes:
        skipped: reason to number of tests.
        retried: the first failures of tests that passed when they were run again.
    """

    suite: str
    seconds: float = 0.0
    passed: int = 0
    failures: tuple[Failure, ...] = ()
    skipped: Counter[str] = field(default_factory=Counter)
    retried: tuple[Failure, ...] = ()

    def __str__(self) -> str:
        return f"{self.suite}: {totals([self])} in {self.seconds:.0f} s"


def totals(outcomes: Iterable[Outcome]) -> str:
    """Return ``N passed, N failed, N skipped`` over some suites."""
    outcomes = list(outcomes)
    passed = sum(each.passed for each in outcomes)
    failed = sum(len(each.failures) for each in outcomes)
    skipped = sum(each.skipped.total() for each in outcomes)
    return f"{passed} passed, {failed} failed, {skipped} skipped"


def outcome_of(
    suite: str, report: Path, code: int, last_lines: Iterable[str] = (), seconds: float = 0.0
) -> Outcome:
    """Read a suite's JUnit report.

    A run without a report, without tests, or with an error code that no test explains is a failure.

    Args:
        code: the exit code of the suite's program.
        last_lines: the end of its output.
    """
    cases = list(_cases(report))
    failures: list[Failure] = []
    skipped: Counter[str] = Counter()
    passed = 0
    for case in cases:
        problems = [each for each in case if each.tag in ("failure", "error")]
        skip = case.find("skipped")
        failures += [_failure(suite, case, each) for each in problems]
        if skip is not None:
            skipped[f"{suite}: {skip.get('message') or 'no reason given'}"] += 1
        passed += not problems and skip is None
    if not cases:
        doubt = f"ended with exit code {code} and reported no tests"
    elif code and not failures:
        doubt = f"ended with exit code {code}, but no test failed"
    else:
        return Outcome(suite, seconds, passed, tuple(failures), skipped)
    failures.append(Failure(suite, doubt, tuple(last_lines)))
    return Outcome(suite, seconds, passed, tuple(failures), skipped)


def after_retry(outcome: Outcome, again: Outcome) -> Outcome:
    """Return the outcome of a suite whose failed tests were run once more."""
    still = {failure.test for failure in again.failures}
    retried = tuple(each for each in outcome.failures if again.passed and each.test not in still)
    left = tuple(each for each in outcome.failures if each not in retried)
    tests = len({each.test for each in retried})
    return replace(outcome, passed=outcome.passed + tests, failures=left, retried=retried)


def closing_lines(outcomes: list[Outcome]) -> Iterator[str]:
    """Return counts of each suite, skip reasons, failures, retries, and last the counts of all.

    Failures come twice, because some keep only the end of the output: in detail, and in two lines.
    """
    yield from map(str, outcomes)
    for reason, count in sum((each.skipped for each in outcomes), Counter[str]()).items():
        yield f"skipped: {count} x {reason}"
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    retried = [failure for outcome in outcomes for failure in outcome.retried]
    room = LINES_OF_ALL_FAILURES
    for failure in [*failures, *retried]:
        room -= len(failure.lines) + 1
        if failure.lines and room >= 0:
            yield f"--- {failure.test}"
            yield from (f"    {line}" for line in failure.lines)
    for failure in retried:
        yield f"RETRIED {failure.test}: passed the second time, failed first with"
        yield f"       {failure.reason}"
    for failure in failures[:FAILURES_NAMED]:
        yield f"FAILED {failure.test}"
        yield f"       {failure.reason}"
    if len(failures) > FAILURES_NAMED:
        yield f"FAILED {len(failures) - FAILURES_NAMED} more"
    yield totals(outcomes)


def _cases(report: Path) -> Iterator[ElementTree.Element]:
    try:
        tree = ElementTree.parse(report)  # noqa: S314 - our own tests wrote it
    except (FileNotFoundError, ElementTree.ParseError):
        return
    yield from tree.getroot().iter("testcase")


def _failure(suite: str, case: ElementTree.Element, problem: ElementTree.Element) -> Failure:
    name = case.get("name", "")
    lines = [line for line in (problem.text or "").splitlines() if line.strip()]
    message = (problem.get("message") or "").splitlines()
    reason = (message or lines[-1:] or ["no reason given"])[0]
    telling = [line for line in lines if TELLING_LINE.match(line)] or lines
    module = case.get("classname", "").rpartition(".")[2]
    return Failure(
        f"{suite}: {module}::{name}",
        reason,
        tuple(telling[-LINES_OF_A_FAILURE:]),
        _node(case.get("classname", ""), name),
    )


def _node(classname: str, name: str) -> str:
    """Return a test as an argument of pytest, or of nose for classes of ``*_test`` modules."""
    *packages, last = classname.split(".")
    if packages and last.startswith("test_"):
        return f"{'/'.join([*packages, last])}.py::{name}"
    if packages and packages[-1].endswith("_test"):
        return f"{'.'.join(packages)}:{last}.{name}"
    return ""
