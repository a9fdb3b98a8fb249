"""Commands that the page starts: real processes, which a restart of the page leaves alone."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.admin import jobs
from indico_zodbrepl.admin import jobs as job_files
from indico_zodbrepl.admin.jobs import Job, Jobs
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, Node, Role
from indico_zodbrepl.cluster.programs import Admin, IndicoInstance
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import operation, store
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.planning import Request

ROOT = Path(__file__).parents[3]
PATIENCE = 120.0

# In the place of bin/zodbrepl: tells how it was called, begins an operation, waits for a file
# named `go` in its folder, and ends with the number in that.
PROGRAM = """#!{python}
import os, sys, time
sys.path.insert(0, {source!r})
from pathlib import Path
from indico_zodbrepl.operations import operation, store
from indico_zodbrepl.operations.model import Plan
folder = Path({folder!r})
print("called with", sys.argv[1:])
print("by", operation.actor())
if sys.argv[3] != "stats":
    sys.path.insert(0, {tests!r})
    from test_jobs import make
    plan = Plan(sys.argv[3], "b", "", "", 1, (), None, ())
    begun = operation.new("demo", plan, operation.actor(), time.time())
    store.save(make(folder), begun)
print("ready", flush=True)
while not (folder / "go").exists():
    time.sleep(0.02)
sys.exit(int((folder / "go").read_text()))
"""


def make(folder: Path) -> Cluster:
    nodes = (
        Node("a", "127.0.0.1", 1, 2, folder / "a", Role.PRIMARY),
        Node("b", "127.0.0.1", 3, 4, folder / "b", Role.SECONDARY, "a"),
    )
    return Cluster(
        name="demo",
        backend="zrs",
        nodes=nodes,
        indico=(IndicoInstance("one", "127.0.0.1", 5),),
        admin=Admin("127.0.0.1", 6),
        var_directory=folder / "var",
        reconnect_delay=1.0,
        keep_alive_delay=5.0,
        allow_public_addresses=False,
        source=folder / "cluster.conf",
    )


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "zodbrepl"
    program.write_text(
        PROGRAM.format(
            python=sys.executable,
            source=str(ROOT / "src"),
            folder=str(tmp_path),
            tests=str(Path(__file__).parent),
        )
    )
    program.chmod(0o755)
    return Installation(tmp_path)


@pytest.fixture
def site(tmp_path: Path, installation: Installation) -> Iterator[Jobs]:
    yield Jobs(make(tmp_path), installation)
    (tmp_path / "go").write_text("0")  # what still waits ends


def until(site: Jobs, job: Job, seen: Callable[[Job], bool]) -> Job:
    """The job, once that can be seen of it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = site.get(job.identifier)
        assert found is not None
        if seen(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def is_ready(job: Job) -> bool:
    return "ready" in job.output


def has_ended(job: Job) -> bool:
    return job.exit_code is not None


def test_an_operation_runs_as_the_command_that_a_person_would_type(
    site: Jobs, tmp_path: Path
) -> None:
    asked = Request("clone", "b", "a new disk\nin b", {"source": "a"})
    job = site.begin(asked, "alice (admin page)", "d1ge57")
    assert "bin/zodbrepl -c cluster.conf clone b --from a --reason 'a new disk in b'" == job.command
    assert "alice (admin page)" == job.actor
    running = until(site, job, is_ready)
    assert (None, None) == (running.ended, running.exit_code)
    called = [
        "-c",
        str(tmp_path / "cluster.conf"),
        "clone",
        "b",
        "--from",
        "a",
        "--reason",
        "a new disk in b",
        "--expect",
        "d1ge57",
    ]
    assert (f"called with {called}", "by alice (admin page)") == running.output[:2]
    (tmp_path / "go").write_text("3")
    ended = until(site, job, has_ended)
    assert 3 == ended.exit_code
    assert ended.ended is not None
    assert ended.ended >= ended.began


def test_a_job_tells_of_its_operation(site: Jobs) -> None:
    job = until(site, site.begin(Request("restart", "one"), "alice", ""), is_ready)
    assert job.operation is not None
    assert ("restart", "alice") == (job.operation.plan.operation, job.operation.actor)


def test_any_other_command_can_be_run(site: Jobs, tmp_path: Path) -> None:
    job = until(site, site.run(["stats", "--json"], "bob"), is_ready)
    assert job.operation is None
    (tmp_path / "go").write_text("0")
    assert 0 == until(site, job, has_ended).exit_code


def test_jobs_outlive_the_page_and_are_found_by_the_next_one(site: Jobs, tmp_path: Path) -> None:
    page = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from test_jobs import make, Jobs, Installation, Request\n"
        "folder = Path(sys.argv[1])\n"
        "jobs = Jobs(make(folder), Installation(folder))\n"
        "print(jobs.begin(Request('restart', 'b'), 'alice', '').identifier)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", page, tmp_path, str(ROOT / "src"), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    (found,) = site.recent()
    assert done.stdout.strip() == found.identifier
    running = until(site, found, is_ready)
    assert running.ended is None
    assert running.operation is not None
    (tmp_path / "go").write_text("0")
    ended = until(site, found, lambda job: job.ended is not None)
    assert None is ended.exit_code, "nobody saw how it ended"


def test_a_job_that_is_killed_ends_so(site: Jobs) -> None:
    job = until(site, site.begin(Request("restart", "b"), "alice", ""), is_ready)
    assert job.operation is not None
    os.kill(job.operation.pid, signal.SIGKILL)
    assert -signal.SIGKILL == until(site, job, has_ended).exit_code


def test_it_is_in_a_session_of_its_own(site: Jobs) -> None:
    job = until(site, site.begin(Request("restart", "b"), "alice", ""), is_ready)
    assert job.operation is not None
    assert job.operation.pid == os.getsid(job.operation.pid)


def test_the_newest_come_first_and_the_oldest_are_forgotten(
    site: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "KEPT", 3)
    running = until(site, site.run(["stats"], "bob"), is_ready)
    (tmp_path / "go").write_text("0")
    until(site, running, has_ended)
    begun = [running.identifier]
    for _ in range(4):
        begun.append(until(site, site.run(["stats"], "bob"), has_ended).identifier)
        time.sleep(0.002)  # names count milliseconds
    assert begun[:1:-1] == [job.identifier for job in site.recent()]
    assert None is site.get(begun[0])


def test_one_that_runs_is_not_forgotten(site: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KEPT", 0)
    first, second = site.run(["stats"], "bob"), site.run(["stats"], "bob")
    assert {first.identifier, second.identifier} == {job.identifier for job in site.recent()}


def test_a_command_that_is_not_there_says_so(site: Jobs, installation: Installation) -> None:
    installation.zodbrepl.unlink()
    with pytest.raises(OperatorError, match="restart could not be started") as raised:
        site.begin(Request("restart", "b"), "alice", "")
    assert "No such file" in raised.value.detail
    assert "zodbrepl -c cluster.conf restart b" in raised.value.hint
    assert [] == site.recent()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Request("restart", "--help"), "cannot do restart of --help"),
        (Request("format"), "cannot do format"),
        (Request("clone", "b", options={"source": "c"}), "cannot do clone of c"),
        (Request("failover", "b", " \n"), "a failover needs a reason"),
    ],
)
def test_what_is_no_command_is_not_begun(site: Jobs, asked: Request, expected: str) -> None:
    with pytest.raises(OperatorError, match=expected) as raised:
        site.begin(asked, "alice", "")
    assert ExitCode.BAD_CONFIG == raised.value.exit_code


@pytest.fixture
def left_open(tmp_path: Path) -> operation.Operation:
    """An operation that was cut short."""
    found = operation.new("demo", Plan("switchover", "b", "a", "", 2, (), None, ()), "carol", 1.0)
    (tmp_path / "var").mkdir()
    store.save(make(tmp_path), found)
    return found


@pytest.mark.usefixtures("left_open")
def test_nothing_begins_before_the_open_operation_was_ended(site: Jobs) -> None:
    with pytest.raises(OperatorError, match="switchover to b was interrupted"):
        site.begin(Request("restart", "b"), "alice", "")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("resume", ["resume"]),
        ("undo", ["resume", "--undo"]),
        ("abandon", ["resume", "--abandon", "--reason", "it is gone"]),
    ],
)
def test_an_open_operation_is_ended_in_each_way(
    site: Jobs, left_open: operation.Operation, how: jobs.Ending, expected: list[str]
) -> None:
    job = until(site, site.end_open(how, "it is gone", "alice"), is_ready)
    assert job.output[0].endswith(f"{[*expected, '--expect', left_open.identifier]}"[1:])
    assert job.operation is not None
    assert left_open.identifier == job.operation.identifier


@pytest.mark.usefixtures("left_open")
def test_abandoning_needs_a_reason(site: Jobs) -> None:
    with pytest.raises(OperatorError, match="cannot end the operation by 'abandon'"):
        site.end_open("abandon", " ", "alice")


def test_there_is_nothing_to_resume(site: Jobs) -> None:
    with pytest.raises(OperatorError, match="there is nothing to resume"):
        site.end_open("resume", "", "alice")


@pytest.mark.parametrize("name", ["", "..", "../../etc", "20261121T223335.829Z-restart-a8e5"])
def test_what_is_no_job_is_none(site: Jobs, name: str) -> None:
    assert None is site.get(name)


def test_a_damaged_record_is_no_job(site: Jobs, tmp_path: Path) -> None:
    job = until(site, site.run(["stats"], "bob"), is_ready)
    path = Layout(make(tmp_path)).jobs / job.identifier / job_files.RECORD
    path.write_text(json.dumps({"identifier": job.identifier}))
    restarted = Jobs(make(tmp_path), Installation(tmp_path))
    assert (None, []) == (restarted.get(job.identifier), restarted.recent())
    assert None is not site.get(job.identifier), "its own page knows better"


def test_the_command_itself_is_run(tmp_path: Path) -> None:
    """The real bin/zodbrepl, which reads the cluster file and ends with its own code."""
    real = Jobs(make(tmp_path), Installation(ROOT))
    ended = until(real, real.run(["journal"], "bob"), has_ended)
    assert int(ExitCode.BAD_CONFIG) == ended.exit_code
    assert any("cluster.conf" in line for line in ended.output), ended.output


def test_what_is_over_is_not_read_again(site: Jobs, tmp_path: Path) -> None:
    (tmp_path / "go").write_text("0")
    ended = until(site, site.run(["stats"], "bob"), has_ended)
    path = Layout(make(tmp_path)).jobs / ended.identifier / job_files.RECORD
    path.write_text("damaged since")
    assert ended == site.get(ended.identifier)
    assert [ended] == site.recent()


def test_an_operation_of_a_later_process_of_that_number_is_not_the_job_s(
    site: Jobs, tmp_path: Path
) -> None:
    job = until(site, site.run(["stats"], "bob"), is_ready)
    (tmp_path / "go").write_text("0")
    until(site, job, has_ended)
    record = job_files.read(tmp_path / "var" / "jobs", job.identifier)
    assert record is not None
    assert record.ended is not None
    later = operation.new(
        "demo", Plan("failover", "b", "a", "", 2, (), None, ()), "carol", record.ended + 1
    )
    store.save(make(tmp_path), dataclasses.replace(later, pid=record.pid))
    restarted = Jobs(make(tmp_path), Installation(tmp_path)).get(job.identifier)
    assert restarted is not None
    assert None is restarted.operation


def test_nothing_begins_that_could_not_be_written_down(
    site: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    begun = []
    monkeypatch.setattr(job_files, "write_atomically", full)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: begun.append(1))
    with pytest.raises(OperatorError, match="stats could not be started") as raised:
        site.run(["stats"], "bob")
    assert "No space left" in raised.value.detail
    assert [] == begun
    assert [] == list((tmp_path / "var" / "jobs").iterdir())


def test_a_disk_that_fills_up_meanwhile_hides_no_end(
    site: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = until(site, site.run(["stats"], "bob"), is_ready)

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(job_files, "write_atomically", full)
    (tmp_path / "go").write_text("3")
    assert 3 == until(site, job, has_ended).exit_code
    assert [3] == [each.exit_code for each in site.recent()]


def test_a_job_of_a_page_that_was_killed_as_it_began_is_known(
    site: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        """In the place of the page's end."""

    begin = subprocess.Popen

    def begin_and_die(*arguments: Any, **options: Any) -> None:
        with begin(*arguments, **options) as begun:
            (tmp_path / "go").write_text("0")
            begun.wait(PATIENCE)
        raise KilledError

    monkeypatch.setattr(subprocess, "Popen", begin_and_die)
    with pytest.raises(KilledError):
        site.run(["stats"], "bob")
    (found,) = Jobs(make(tmp_path), Installation(tmp_path)).recent()
    assert ("bin/zodbrepl -c cluster.conf stats", "bob", None) == (
        found.command,
        found.actor,
        found.exit_code,
    )
    assert found.ended is not None
    assert "ready" in found.output
