"""The suites of tests/run, what their JUnit reports say, and how a run tells of it."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

LINES_OF_A_FAILURE = 12
LINES_OF_ALL_FAILURES = 40
FAILURES_NAMED = 8
# In pytest's account of a failure: the failing line, the error, and the places it came through.
TELLING_LINE = re.compile(r"[>E] |[^\s:]+:\d+: ")


@dataclass(frozen=True)
class Suite:
    """One run of a test program.

    Attributes:
        folder: of its tests.
        command: what runs them; --junit-xml is added.
        chosen: what runs the tests that are added to it; empty where there is no such way.
    """

    name: str
    folder: str
    command: tuple[str, ...]
    chosen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counts:
    """What came of a suite's tests; those that passed at their second attempt only are unstable."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    unstable: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.unstable + other.unstable,
        )

    def __str__(self) -> str:
        told = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return told + (f", {self.unstable} passed only when tried again" if self.unstable else "")


@dataclass(frozen=True)
class Failure:
    """A failed test, or what else is wrong with a suite.

    Attributes:
        test: the suite and the test.
        reason: one line that says what is wrong.
        end: the last lines that were told about it.
        node: the test as its program takes it on its command line; empty where it can't be told.
    """

    test: str
    reason: str
    end: tuple[str, ...] = ()
    node: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of a suite.

    Attributes:
        line: with its counts.
        skipped: how often tests were skipped for a reason.
        remarks: what the suite says of itself, such as which storages it tested; a line each.
        unstable: how tests failed that then passed when they were tried again.
    """

    counts: Counts
    line: str
    failures: tuple[Failure, ...]
    skipped: collections.Counter[str]
    remarks: tuple[str, ...] = ()
    unstable: tuple[Failure, ...] = ()


def counts_of(report: Path, exit_code: int) -> tuple[Counts, str]:
    """Counts of a suite's JUnit report, and what is wrong with the run beside failed tests.

    A suite that is to be doubted counts as one more failure: one that died without a report, had no
    tests, or ended with an error that no test explains.
    """
    try:
        tree = ElementTree.parse(report)  # noqa: S314 - our own tests wrote it
    except (FileNotFoundError, ElementTree.ParseError):
        return Counts(failed=1), f"it ended with code {exit_code} and no counts of its tests"
    counts = Counts()
    for suite in tree.getroot().iter("testsuite"):
        of = {key: int(suite.get(key) or 0) for key in ("tests", "failures", "errors")}
        skipped = int(suite.get("skipped") or suite.get("skip") or 0)
        failed = of["failures"] + of["errors"]
        counts += Counts(of["tests"] - failed - skipped, failed, skipped)
    if counts.passed + counts.failed + counts.skipped == 0:
        return Counts(failed=1), "it has no tests"
    if exit_code and not counts.failed:
        return counts + Counts(failed=1), f"it ended with code {exit_code} though no test failed"
    return counts, ""


def elements_of(report: Path, tag: str) -> Iterator[ElementTree.Element]:
    """The elements of that kind of a JUnit report; none when there is no report."""
    try:
        tree = ElementTree.parse(report)  # noqa: S314 - our own tests wrote it
    except (FileNotFoundError, ElementTree.ParseError):
        return
    yield from tree.getroot().iter(tag)


def cases_of(report: Path, suite: Suite) -> Iterator[tuple[str, str, ElementTree.Element]]:
    """Each test that did not pass: its name, its node, and the element that says why."""
    package = suite.folder.replace("/", ".") + "."
    for case in elements_of(report, "testcase"):
        module = case.get("classname", "").removeprefix(package)
        for tag in ("failure", "error", "skipped"):
            for found in case.findall(tag):
                yield f"{suite.name}: {module}::{case.get('name')}", node_of(case), found


def node_of(case: ElementTree.Element) -> str:
    """A test as pytest takes it on its command line, or nose; empty for all else."""
    *packages, last = case.get("classname", "").split(".")
    if packages and last.startswith("test_"):
        return f"{'/'.join([*packages, last])}.py::{case.get('name')}"
    if packages and packages[-1].endswith("_test"):
        return f"{'.'.join(packages)}:{last}.{case.get('name')}"
    return ""


def passed_in(report: Path) -> set[str]:
    """The nodes of the tests that passed."""
    passed: set[str] = set()
    other: set[str] = set()
    for case in elements_of(report, "testcase"):
        wrong = any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
        (other if wrong else passed).add(node_of(case))
    return passed - other


def remarks_of(report: Path) -> Iterator[str]:
    """The properties of a JUnit report's suites, a line each."""
    for suite in elements_of(report, "testsuite"):
        for found in suite.findall("properties/property"):
            yield f"{found.get('name')}: {found.get('value')}"


def outcome_of(
    suite: Suite, report: Path, exit_code: int, last_lines: list[str], seconds: float
) -> Outcome:
    """What came of a suite, by its JUnit report, its exit code and its last lines of output."""
    counts, doubt = counts_of(report, exit_code)
    cases = list(cases_of(report, suite))
    failures = [failure_of(*case) for case in cases if case[-1].tag != "skipped"]
    if doubt:
        failures.append(Failure(suite.name, doubt, tuple(last_lines)))
    skipped = (found.get("message") for _, _, found in cases if found.tag == "skipped")
    in_brackets = f" ({doubt})" if doubt else ""
    return Outcome(
        counts,
        f"{suite.name}: {counts} in {seconds:.0f} s{in_brackets}",
        tuple(failures),
        collections.Counter(f"{suite.name}: {reason or 'no reason given'}" for reason in skipped),
        tuple(remarks_of(report)),
    )


def with_second_attempts(outcome: Outcome, passed: set[str]) -> Outcome:
    """What came of a suite whose failed tests were tried again, of which these nodes passed.

    The first line of the suite stays as it was; its counts and failures tell of both attempts.
    """
    unstable = tuple(each for each in outcome.failures if each.node in passed)
    tests = len({each.node for each in unstable})
    counts = outcome.counts + Counts(tests, -len(unstable), 0, tests)
    failures = tuple(each for each in outcome.failures if each.node not in passed)
    return replace(outcome, counts=counts, failures=failures, unstable=unstable)


def failure_of(test: str, node: str, found: ElementTree.Element) -> Failure:
    """A failed test as its JUnit report tells it."""
    lines = [line for line in (found.text or "").splitlines() if line.strip()]
    message = (found.get("message") or "").splitlines()
    reason = (message or lines[-1:] or ["no reason given"])[0]
    telling = [line for line in lines if TELLING_LINE.match(line)] or lines
    return Failure(test, reason, tuple(telling[-LINES_OF_A_FAILURE:]), node)


def closing_lines(outcomes: list[Outcome]) -> Iterator[str]:
    """The counts of each suite, its remarks, what was skipped, what failed, the counts of all.

    The failures are told twice, as some keep nothing but the end of the output: how each came
    about, as far as there is room, and then each in two lines.
    """
    yield from (outcome.line for outcome in outcomes)
    yield from (remark for outcome in outcomes for remark in outcome.remarks)
    for reason, count in sum((each.skipped for each in outcomes), collections.Counter()).items():
        yield f"skipped: {count} x {reason}"
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    room = LINES_OF_ALL_FAILURES
    unstable = [failure for outcome in outcomes for failure in outcome.unstable]
    for failure in [*failures, *unstable]:
        room -= len(failure.end) + 1
        if failure.end and room >= 0:
            yield f"--- {failure.test}"
            yield from (f"    {line}" for line in failure.end)
    for failure in unstable:
        yield f"UNSTABLE {failure.test} failed first, and passed when it was tried again"
        yield f"       {failure.reason}"
    for failure in failures[:FAILURES_NAMED]:
        yield f"FAILED {failure.test}"
        yield f"       {failure.reason}"
    if len(failures) > FAILURES_NAMED:
        yield f"FAILED {len(failures) - FAILURES_NAMED} more"
    yield str(sum((outcome.counts for outcome in outcomes), Counts()))
