"""strace sees a storage's writes, and leaves its programs as they were."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Made, Settings
from indico_zodbrepl.bench.suites.writes import SUITE, traced, tracer_of, with_descendants
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError

SETTINGS = Settings(
    1,
    0,
    quick=True,
    options={
        option.name: option.default if option.quick is None else option.quick
        for option in SUITE.options
    },
)


@pytest.fixture(scope="module")
def sites(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with Sites(Installation(home), tmp_path_factory.mktemp("sites"), lambda _: None) as opened:
        yield opened


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """One that does nothing."""
    with subprocess.Popen(["sleep", "60"]) as started:
        try:
            yield started
        finally:
            started.kill()


def measured(sites: Sites, name: str) -> Made:
    storage = STORAGES[name]
    site = sites.site(storage)
    SUITE.prepare(site, SETTINGS)
    (case,) = SUITE.cases(SETTINGS, storage)
    return SUITE.measure(case, site, SETTINGS)


@pytest.mark.parametrize("name", ["filestorage", "zeo"])
def test_each_commit_reaches_the_disk_once_with_what_it_changed(sites: Sites, name: str) -> None:
    made = measured(sites, name)
    commits = SETTINGS.options["commits"]
    assert (commits, 1.0) == (made.details["commits"], made.metrics["fsyncs"])
    assert 1000 < made.metrics["written_bytes"] < 2000
    assert {"data", "temporary file"} <= made.details["files"].keys()
    assert made.details["files"]["data"]["writes"] == sum(
        made.details["files"]["data"]["sizes"].values()
    )


def test_a_server_goes_on_untraced(sites: Sites) -> None:
    site = sites.site(STORAGES["zeo"])
    server = site.pids()["node-a"]
    measured(sites, "zeo")
    assert server == site.pids()["node-a"]
    assert {0} == tracer_of(server)
    assert [] == list(site.folder.glob("strace-*"))


def test_an_interruption_leaves_the_program_untraced(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    def interrupted() -> None:
        with traced([process.pid], tmp_path / "calls"):
            assert {0} != tracer_of(process.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ({0}, None) == (tracer_of(process.pid), process.poll())


def test_a_program_that_may_not_be_traced_is_told_of(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with contextlib.ExitStack() as opened:
        opened.enter_context(traced([process.pid], tmp_path / "first"))
        with pytest.raises(OperatorError) as caught:
            opened.enter_context(traced([process.pid], tmp_path / "second"))
    assert caught.value.exit_code == ExitCode.REFUSED
    assert "ptrace_scope" in caught.value.hint


def test_without_strace_the_package_is_named(
    process: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperatorError) as caught, traced([process.pid], tmp_path / "calls"):
        pass
    assert ("apt-get install strace", ExitCode.NOT_INSTALLED) == (
        caught.value.hint,
        caught.value.exit_code,
    )


def test_what_a_program_started_is_found() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo up; wait"], stdout=subprocess.PIPE
    ) as parent:
        try:
            assert parent.stdout
            parent.stdout.readline()
            found = with_descendants([parent.pid])
            assert (parent.pid, 2) == (min(found), len(found))
        finally:
            for pid in with_descendants([parent.pid]):
                subprocess.run(["kill", "-KILL", str(pid)], check=False)
