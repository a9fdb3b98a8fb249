"""tests/run counts every suite, and doubts one that died, had no tests or failed without a test."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from _pytest.mark.expression import Expression

SCRIPT = Path(__file__).parents[1] / "run"
sys.path.insert(0, str(SCRIPT.parent))

import suite_reports  # noqa: E402


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    loader = SourceFileLoader("tests_run", str(SCRIPT))
    spec = importlib.util.spec_from_loader("tests_run", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    # Records look up their own module while they are made.
    sys.modules["tests_run"] = module
    loader.exec_module(module)
    return module


def report(tmp_path: Path, *suites: str) -> Path:
    path = tmp_path / "report.xml"
    path.write_text(
        f"<testsuites>{''.join(f'<testsuite {suite}/>' for suite in suites)}</testsuites>"
    )
    return path


FINE = 'tests="5" failures="0" errors="0" skipped="1"'
FAILING = 'tests="4" failures="2" errors="1" skipped="0"'


def test_passed_failed_and_skipped_are_counted_over_all_suites_of_a_report(tmp_path: Path) -> None:
    counts, doubt = suite_reports.counts_of(report(tmp_path, FINE, FAILING), 1)
    assert ("5 passed, 3 failed, 1 skipped", "") == (str(counts), doubt)


def test_a_report_of_nose_is_understood(tmp_path: Path) -> None:
    """nose 1.3 calls the skipped ones skip, and has no outer element."""
    path = tmp_path / "report.xml"
    path.write_text('<testsuite name="nosetests" tests="96" errors="0" failures="0" skip="1"/>')
    assert "95 passed, 0 failed, 1 skipped" == str(suite_reports.counts_of(path, 0)[0])


@pytest.mark.parametrize(
    ("classname", "node"),
    [
        ("tests.unit.test_one", "tests/unit/test_one.py::test_it"),
        ("tests.server_test.TestScheduler", "tests.server_test:TestScheduler.test_it"),
        ("tests.indico", ""),
        ("", ""),
    ],
    ids=["of pytest", "of nose", "a process that died", "nothing"],
)
def test_a_failed_test_is_named_as_its_program_takes_it(classname: str, node: str) -> None:
    case = ElementTree.Element("testcase", classname=classname, name="test_it")
    assert node == suite_reports.node_of(case)


@pytest.mark.parametrize(
    ("suites", "exit_code", "expected"),
    [
        (None, -9, "0 passed, 1 failed, 0 skipped"),
        ([], 5, "0 passed, 1 failed, 0 skipped"),
        (['tests="0" failures="0" errors="0" skipped="0"'], 0, "0 passed, 1 failed, 0 skipped"),
        ([FINE], 3, "4 passed, 1 failed, 1 skipped"),
    ],
    ids=["died", "collected nothing", "no tests", "failed after its tests"],
)
def test_a_suite_that_is_to_be_doubted_counts_as_a_failure(
    tmp_path: Path,
    suites: list[str] | None,
    exit_code: int,
    expected: str,
) -> None:
    path = tmp_path / "none.xml" if suites is None else report(tmp_path, *suites)
    counts, doubt = suite_reports.counts_of(path, exit_code)
    assert expected == str(counts)
    assert doubt


def test_a_suite_that_does_not_exist_is_refused() -> None:
    answer = subprocess.run([SCRIPT, "untis"], capture_output=True, text=True, check=False)
    assert (1, "") == (answer.returncode, answer.stdout)
    assert answer.stderr.startswith("tests/run: no suite untis; there are: interrupted")


def test_of_a_folder_with_several_suites_each_test_is_in_one(runner: ModuleType) -> None:
    """Also a test whose own name has words of the expressions in it."""
    chooses: dict[str, dict[str, Expression]] = {}
    for suite in runner.SUITES:
        if "-k" in suite.command:
            [expression] = suite.command[suite.command.index("-k") + 1 :]
            chooses.setdefault(suite.folder, {})[suite.name] = Expression.compile(expression)
    assert {"tests/integration", "tests/dataplane", "tests/unit"} == set(chooses)
    for folder, suites in chooses.items():
        modules = [path.name for path in (SCRIPT.parents[1] / folder).rglob("test_*.py")]
        for names in itertools.product(modules, ["", *modules]):
            occurs = functools.partial(_occurs, names)
            chosen = [name for name, each in suites.items() if each.evaluate(occurs)]
            assert 1 == len(chosen), (names, chosen)


def _occurs(names: tuple[str, ...], word: str, /, **_: object) -> bool:
    return any(word in name for name in names)


def test_a_suite_that_takes_too_long_is_ended_with_what_it_started(
    tmp_path: Path, runner: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "TIME_LIMIT", 3.0)
    pid_file = tmp_path / "pid"
    script = f"trap '' INT; sleep 300 & echo $! >{pid_file}; wait"
    slow = runner.Suite("slow", "", ("sh", "-c", script))
    monkeypatch.setattr(runner, "GRACE", 1.0)
    code, _ = runner.Runner().run(slow, tmp_path / "x.xml")
    assert code != 0
    assert _is_gone(int(pid_file.read_text()))


def _is_gone(pid: int) -> bool:
    """Whether a process ends within a minute."""
    for _ in range(600):
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def copy_with(suites: str, folder: Path, home: Path = SCRIPT.parents[1]) -> Path:
    """A copy of tests/run with other suites, for the tests of another installation."""
    copy = folder / "run"
    head, _, tail = SCRIPT.read_text().partition("class Runner")
    head = head.replace("Path(__file__).resolve().parent.parent", f"Path({str(home)!r})")
    for program in ("PYTHON27", "PYTHON3"):
        head = re.sub(f"^{program} = .*", f"{program} = Path(sys.executable)", head, flags=re.M)
    copy.write_text(f"{head}SUITES = ({suites})\n\n\nclass Runner{tail}")
    shutil.copy(SCRIPT.with_name("suite_reports.py"), folder)
    return copy


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_its_suites(tmp_path: Path, number: signal.Signals) -> None:
    """Run as a copy whose suites are two sleeping programs."""
    pid_files = [tmp_path / "one", tmp_path / "two"]
    suites = "".join(
        f"Suite({path.name!r}, 'tests', ('sh', '-c', 'echo $$ >{path}; sleep 300; true')),"
        for path in pid_files
    )
    copy = copy_with(suites, tmp_path)
    runner = subprocess.Popen([sys.executable, copy], stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):
            if all(path.exists() and path.read_text() for path in pid_files):
                break
            time.sleep(0.1)
        runner.send_signal(number)
        assert 130 == runner.wait(60)
        for path in pid_files:
            assert _is_gone(int(path.read_text()))
    finally:
        runner.kill()
        runner.wait()


TESTS_OF_EACH_KIND = """
import pytest

def wait_for(what):
    assert what == "rain", f"not in time: {what}"

def test_that_fails():
    wait_for("the weather")

def test_that_tells(record_testsuite_property):
    record_testsuite_property("storage of sand", "tested")

@pytest.mark.parametrize("number", range(2))
def test_without_its_program(number):
    pytest.skip("needs a program")

def test_that_passes():
    pass
"""


def last_lines_of(copy: Path) -> list[str]:
    """What a run writes after its last heading."""
    run = subprocess.run([sys.executable, copy], capture_output=True, text=True, check=False)
    assert (1, "") == (run.returncode, run.stderr)
    return run.stdout.partition("\n===== all suites\n")[2].splitlines()


def test_the_end_tells_what_was_skipped_and_how_a_test_failed(tmp_path: Path) -> None:
    """What is kept of a run may be no more than its last two thousand characters."""
    (tmp_path / "test_kinds.py").write_text(TESTS_OF_EACH_KIND)
    command = ("-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider", str(tmp_path))
    copy = copy_with(f"Suite('kinds', 'tests', {(sys.executable, *command)}),", tmp_path)
    counts, remark, skipped, *told, name, reason, total = last_lines_of(copy)
    assert counts.startswith("kinds: 2 passed, 1 failed, 2 skipped in ")
    assert "storage of sand: tested" == remark
    assert "skipped: 2 x kinds: needs a program" == skipped
    assert name.startswith("FAILED kinds: ")
    assert name.endswith("test_kinds::test_that_fails")
    assert "       AssertionError: not in time: the weather" == reason
    assert "2 passed, 1 failed, 2 skipped" == total
    assert name.replace("FAILED", "---") == told[0]
    assert [
        '>       wait_for("the weather")',
        "E       AssertionError: not in time: the weather",
    ] == [line.strip() for line in (told[1], told[4])]
    assert told[-1].endswith("test_kinds.py:5: AssertionError")


FAILS_ONCE = """
from pathlib import Path

TRIED = Path(__file__).with_name("tried")

def test_that_is_not_tried_again():
    assert not TRIED.exists()

def test_that_was_too_slow():
    assert TRIED.exists() or TRIED.touch(), "not within 3 s"

def test_that_{}():
    assert {}
"""


@pytest.mark.parametrize(("name", "holds", "code"), [("passes_too", True, 0), ("fails", False, 1)])
def test_what_failed_is_tried_once_more_and_told_as_unstable_when_it_passes_then(
    tmp_path: Path, name: str, holds: bool, code: int
) -> None:
    folder = tmp_path / "tests" / "some"
    folder.mkdir(parents=True)
    (folder / "test_slow.py").write_text(FAILS_ONCE.format(name, holds))
    program = (
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "-p",
        "no:cacheprovider",
    )
    suite = ("some", "tests/some", (*program, "tests/some"), program)
    copy = copy_with(f"Suite(*{suite}),", tmp_path, home=tmp_path)
    run = subprocess.run([sys.executable, copy], capture_output=True, text=True, check=False)
    assert (code, "") == (run.returncode, run.stderr)
    told = run.stdout.partition("\n===== all suites\n")[2]
    assert (
        "UNSTABLE some: test_slow::test_that_was_too_slow failed first, and passed when it was "
        "tried again\n       AssertionError: not within 3 s" in told
    )
    assert ("FAILED some: test_slow::test_that_fails" in told) is not holds
    assert told.splitlines()[-1] == (
        f"{3 if holds else 2} passed, {0 if holds else 1} failed, 0 skipped,"
        " 1 passed only when tried again"
    )


def test_nothing_is_tried_again_when_much_fails_or_a_suite_died(runner: ModuleType) -> None:
    def outcome(count: int, node: str) -> object:
        failures = tuple(
            suite_reports.Failure(f"test_{number}", "reason", (), node) for number in range(count)
        )
        return suite_reports.Outcome(suite_reports.Counts(failed=count), "", failures, Counter())

    few, died = outcome(8, "tests/some/test_a.py::test_b"), outcome(1, "")
    assert runner.can_be_tried_again([few])
    assert not runner.can_be_tried_again([few, few])
    assert not runner.can_be_tried_again([few, died])


def test_the_end_tells_the_last_words_of_a_suite_that_died(tmp_path: Path) -> None:
    script = "echo first; echo last words; exit 3"
    copy = copy_with(f"Suite('dead', 'tests', ('sh', '-c', {script!r})),", tmp_path)
    reason = "it ended with code 3 and no counts of its tests"
    assert [
        "--- dead",
        "    first",
        "    last words",
        "FAILED dead",
        f"       {reason}",
        "0 passed, 1 failed, 0 skipped",
    ] == last_lines_of(copy)[1:]


@pytest.mark.parametrize("count", [1, 3, 50])
def test_the_end_stays_short_and_names_failures_last(count: int) -> None:
    failures = tuple(
        suite_reports.Failure(f"suite: module::test_{number}", f"reason {number}", ("line",) * 12)
        for number in range(count)
    )
    outcome = suite_reports.Outcome(
        suite_reports.Counts(failed=count), "suite: ...", failures, Counter()
    )
    lines = list(suite_reports.closing_lines([outcome]))
    assert len(lines) <= 60
    named = [line for line in lines if line.startswith("FAILED suite: ")]
    assert min(count, 8) == len(named)
    assert 0 < lines.count("    line") <= 36
    assert (f"FAILED {count - 8} more" in lines) is (count > 8)
    assert lines.index(named[0]) > max(n for n, line in enumerate(lines) if "line" in line)
