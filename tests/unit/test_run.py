"""tests/run counts every suite, doubts one without tests, and reports what it ran again."""

from __future__ import annotations

import importlib.util
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

SCRIPT = Path(__file__).parents[1] / "run"
sys.path.insert(0, str(SCRIPT.parent))

import suite_reports  # noqa: E402

# Where the tests run in the background SIGINT is ignored, and the runs below would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

PYTEST = (
    *(sys.executable, "-m", "pytest", "-c", os.devnull),
    *("-p", "no:cacheprovider", "--disable-plugin-autoload"),
)
PASSED = '<testcase classname="tests.some.test_a" name="test_{}"/>'
FAILED = (
    '<testcase classname="tests.some.test_a" name="test_{}"><failure message="it rains"/>'
    "</testcase>"
)
SKIPPED = '<testcase classname="tests.some.test_a" name="test_{}"><skipped/></testcase>'


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    loader = SourceFileLoader("tests_run", str(SCRIPT))
    spec = importlib.util.spec_from_loader("tests_run", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    # Dataclasses read their own module while they are made.
    sys.modules["tests_run"] = module
    loader.exec_module(module)
    return module


def outcome(tmp_path: Path, cases: tuple[str, ...], code: int) -> suite_reports.Outcome:
    path = tmp_path / "report.xml"
    numbered = "".join(case.format(number) for number, case in enumerate(cases))
    path.write_text(f"<testsuites><testsuite>{numbered}</testsuite></testsuites>")
    return suite_reports.outcome_of("some", path, code)


def test_passed_failed_and_skipped_are_counted(tmp_path: Path) -> None:
    found = outcome(tmp_path, (PASSED, PASSED, FAILED, SKIPPED), 1)
    assert "2 passed, 1 failed, 1 skipped" == suite_reports.totals([found])
    assert ("some: test_a::test_2", "it rains", "tests/some/test_a.py::test_2") == (
        found.failures[0].test,
        found.failures[0].reason,
        found.failures[0].node,
    )
    assert Counter({"some: no reason given": 1}) == found.skipped


@pytest.mark.parametrize(
    ("classname", "name", "node"),
    [
        ("tests.unit.test_one", "test_it", "tests/unit/test_one.py::test_it"),
        ("tests.server_test.TestScheduler", "test_it", "tests.server_test:TestScheduler.test_it"),
        ("tests.indico", "test_it", ""),
        ("", "test_it", ""),
    ],
    ids=["of pytest", "of nose", "a process that died", "nothing"],
)
def test_a_failed_test_is_named_as_its_program_takes_it(
    tmp_path: Path, classname: str, name: str, node: str
) -> None:
    case = ElementTree.Element("testcase", classname=classname, name=name)
    ElementTree.SubElement(case, "failure")
    path = tmp_path / "report.xml"
    path.write_bytes(ElementTree.tostring(case))
    assert [node] == [each.node for each in suite_reports.outcome_of("x", path, 1).failures]


@pytest.mark.parametrize(
    ("cases", "code", "expected"),
    [
        ((), -9, "0 passed, 1 failed, 0 skipped"),
        ((), 5, "0 passed, 1 failed, 0 skipped"),
        ((), 0, "0 passed, 1 failed, 0 skipped"),
        ((PASSED, SKIPPED), 3, "1 passed, 1 failed, 1 skipped"),
    ],
    ids=["died", "collected nothing", "no tests", "failed after its tests"],
)
def test_a_suite_that_is_to_be_doubted_counts_as_a_failure(
    tmp_path: Path, cases: tuple[str, ...], code: int, expected: str
) -> None:
    found = outcome(tmp_path, cases, code)
    assert expected == suite_reports.totals([found])
    assert f"exit code {code}" in found.failures[0].reason


def test_a_suite_that_does_not_exist_is_refused() -> None:
    answer = subprocess.run([SCRIPT, "untis"], capture_output=True, text=True, check=False)
    assert (1, "") == (answer.returncode, answer.stdout)
    assert answer.stderr.startswith("tests/run: no suite untis; there are: integration")


def test_each_folder_of_tests_is_run_once_and_exhaustive_ones_are_known(runner: ModuleType) -> None:
    home = SCRIPT.parent
    folders = [f"tests/{path.name}" for path in home.iterdir() if any(path.rglob("test_*.py"))]
    folders.remove("tests/dataplane")
    modules = [f"tests/dataplane/{path.name}" for path in home.glob("dataplane/test_*.py")]
    named = [test for suite in runner.SUITES for test in suite.tests]
    assert sorted([*folders, *modules]) == sorted(named)
    marked = {
        path.relative_to(home).parts[0]
        for path in (*home.rglob("*/test_*.py"), *home.rglob("*.feature"))
        if re.search("@exhaustive|mark.exhaustive", path.read_text()) and path != Path(__file__)
    }
    exhaustive = {suite.name for suite in runner.SUITES if suite.exhaustive}
    assert marked == {name.partition("-")[0] for name in exhaustive}


def test_tests_that_share_a_cluster_stay_on_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # or the ports are shifted again
    spec = importlib.util.spec_from_file_location("marks", SCRIPT.with_name("conftest.py"))
    assert spec
    assert spec.loader
    marks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(marks)

    def cluster(test: str) -> str | None:
        found: str | None = marks.shared_cluster(f"tests/{test}", str(SCRIPT.parents[1]))
        return found

    contract = "integration/test_sql_engines.py::test_{}[relstorage-{}]"
    mariadb = cluster(contract.format("a", "mariadb"))
    assert mariadb == cluster(contract.format("b", "mariadb"))
    assert mariadb != cluster(contract.format("a", "postgresql"))
    assert cluster("base/test_storages.py::test_a[zeo]") is not None
    assert cluster("integration/test_status.py::test_a") is not None
    assert cluster("integration/test_switchover.py::test_a") is None


def test_a_suite_that_takes_too_long_is_stopped_with_what_it_started(
    tmp_path: Path, runner: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "TIME_LIMIT", 3.0)
    monkeypatch.setattr(runner, "GRACE", 1.0)
    pid_file = tmp_path / "pid"
    script = f"trap '' INT; sleep 300 & echo $! >{pid_file}; wait"
    slow = runner.Suite("slow", ("sh", "-c", script))
    assert runner.Runner("").run(slow, tmp_path / "x.xml").failures
    assert _is_gone(int(pid_file.read_text()))


def _is_gone(pid: int) -> bool:
    """Return True if a process stops within a minute."""
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


def copy_with(suites: str, folder: Path) -> Path:
    """Return a copy of tests/run that runs other suites in a folder."""
    (folder / "tests").mkdir(exist_ok=True)
    copy = folder / "tests" / "run"
    text = SCRIPT.read_text()
    for program in ("PYTHON27", "PYTHON3"):
        text = re.sub(f"^{program} = .*", f"{program} = Path(sys.executable)", text, flags=re.M)
    text = re.sub(r"^SUITES = \(.*?^\)", f"SUITES = ({suites})", text, flags=re.M | re.S)
    copy.write_text(text)
    shutil.copy(SCRIPT.with_name("suite_reports.py"), copy.parent)
    return copy


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_stops_its_suites(tmp_path: Path, number: signal.Signals) -> None:
    pid_files = [tmp_path / "one", tmp_path / "two"]
    suites = "".join(
        f"Suite({path.name!r}, ('sh', '-c', 'echo $$ >{path}; sleep 300; true')),"
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


def run(copy: Path, code: int) -> list[str]:
    """Return what a run prints after its last heading."""
    done = subprocess.run([sys.executable, copy], capture_output=True, text=True, check=False)
    assert (code, "") == (done.returncode, done.stderr), done.stdout
    return done.stdout.partition("\n===== all suites\n")[2].splitlines()


def suite_of(folder: Path, text: str) -> str:
    """Write a module of tests, and return its suite as tests/run has it."""
    tests = folder / "tests" / "some"
    tests.mkdir(parents=True)
    (tests / "test_it.py").write_text(text)
    return f"Suite('some', {(*PYTEST, '--rootdir', str(folder))}, ('tests/some',)),"


def test_a_suite_that_is_to_be_alone_runs_after_all_others(tmp_path: Path) -> None:
    log = tmp_path / "log"
    suites = "".join(
        f"Suite({name!r}, ('sh', '-c', 'echo {name} >>{log}; sleep {seconds}; echo end >>{log};'"
        f"' true'), alone={name == 'alone'}),"
        for name, seconds in (("alone", 0), ("other", 1))
    )
    run(copy_with(suites, tmp_path), 1)
    assert ["other", "end", "alone", "end"] == log.read_text().split()


TESTS_OF_EACH_KIND = """
import pytest

def wait_for(what):
    assert what == "rain", f"not in time: {what}"

def test_that_fails():
    wait_for("the weather")

@pytest.mark.parametrize("number", range(2))
def test_without_its_program(number):
    pytest.skip("needs a program")

def test_that_passes():
    pass
"""


def test_the_end_names_what_was_skipped_and_how_a_test_failed(tmp_path: Path) -> None:
    """Some keep no more of a run than its last two thousand characters."""
    copy = copy_with(suite_of(tmp_path, TESTS_OF_EACH_KIND), tmp_path)
    counts, skipped, *detail, name, reason, total = run(copy, 1)
    assert counts.startswith("some: 1 passed, 1 failed, 2 skipped in ")
    assert "skipped: 2 x some: needs a program" == skipped
    assert "FAILED some: test_it::test_that_fails" == name
    assert "       AssertionError: not in time: the weather" == reason
    assert "1 passed, 1 failed, 2 skipped" == total
    assert name.replace("FAILED", "---") == detail[0]
    assert [
        '>       wait_for("the weather")',
        "E       AssertionError: not in time: the weather",
    ] == [line.strip() for line in (detail[1], detail[4])]
    assert detail[-1].endswith("test_it.py:5: AssertionError")


FAILS_ONCE = """
from pathlib import Path

TRIED = Path(__file__).with_name("tried")

def test_that_is_not_run_again():
    assert not TRIED.exists()

def test_that_was_too_slow():
    assert TRIED.exists() or TRIED.touch(), "not within 3 s"

def test_that_{}():
    assert {}
"""


@pytest.mark.parametrize(("name", "holds", "code"), [("passes_too", True, 0), ("fails", False, 1)])
def test_a_failed_test_is_run_again_and_reported_with_its_first_failure(
    tmp_path: Path, name: str, holds: bool, code: int
) -> None:
    copy = copy_with(suite_of(tmp_path, FAILS_ONCE.format(name, holds)), tmp_path)
    lines = run(copy, code)
    place = lines.index(
        "RETRIED some: test_it::test_that_was_too_slow: passed the second time, failed first with"
    )
    assert "       AssertionError: not within 3 s" == lines[place + 1]
    assert ("FAILED some: test_it::test_that_fails" in lines) is not holds
    assert f"{3 if holds else 2} passed, {0 if holds else 1} failed, 0 skipped" == lines[-1]


@pytest.mark.parametrize(
    ("count", "node", "expected"), [(3, "x::y", 1), (4, "x::y", 0), (1, "", 0)]
)
def test_nothing_is_run_again_if_more_than_three_tests_fail_or_a_suite_died(
    tmp_path: Path, runner: ModuleType, count: int, node: str, expected: int
) -> None:
    class Calls(list[str]):
        def run(self, suite: object, _report: Path, *_nodes: str) -> suite_reports.Outcome:
            self.append(str(suite))
            return suite_reports.Outcome("some")

    failures = tuple(suite_reports.Failure(f"test_{n}", "", (), node) for n in range(count))
    calls = Calls()
    runner.retried(calls, [suite_reports.Outcome("unit", failures=failures)], tmp_path)
    assert expected == len(calls)


def test_the_end_has_the_last_lines_of_a_suite_that_died(tmp_path: Path) -> None:
    script = "echo first; echo last words; exit 3"
    copy = copy_with(f"Suite('dead', ('sh', '-c', {script!r})),", tmp_path)
    assert [
        "--- dead",
        "    first",
        "    last words",
        "FAILED dead",
        "       ended with exit code 3 and reported no tests",
        "0 passed, 1 failed, 0 skipped",
    ] == run(copy, 1)[1:]


@pytest.mark.parametrize("count", [1, 3, 50])
def test_the_end_stays_short_and_names_failures_last(count: int) -> None:
    failures = tuple(
        suite_reports.Failure(f"suite: module::test_{number}", f"reason {number}", ("line",) * 12)
        for number in range(count)
    )
    lines = list(suite_reports.closing_lines([suite_reports.Outcome("x", failures=failures)]))
    assert len(lines) <= 60
    named = [line for line in lines if line.startswith("FAILED suite: ")]
    assert min(count, 8) == len(named)
    assert 0 < lines.count("    line") <= 36
    assert (f"FAILED {count - 8} more" in lines) is (count > 8)
    assert lines.index(named[0]) > max(n for n, line in enumerate(lines) if "line" in line)
