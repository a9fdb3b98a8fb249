"""Benchmarks inside an Indico on a pair of servers, and on a database of its own."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from clusters import PATIENCE, ClusterUnderTest, running, wait_until
from test_bulk_load import OnSQLite, bulkload

from indico_zodbrepl.bench import results
from indico_zodbrepl.bench.sites.storages import RUNNING
from indico_zodbrepl.bench.suites import in_app
from indico_zodbrepl.bench.suites.in_app import WRITE, Endpoint
from indico_zodbrepl.bench.summary import rows
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.demo.comparison import compare
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.indico_programs import Indico27

CONFERENCES = 12


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[ClusterUnderTest]:
    """A ZRS pair whose Indico holds what the bulk loader made."""
    folder = tmp_path_factory.mktemp("pair")
    with running(ClusterUnderTest(folder, home, indico=("one",))) as made:
        fill(made)
        yield made


@pytest.fixture(scope="module")
def pair_with_two_instances(
    tmp_path_factory: pytest.TempPathFactory, home: Path
) -> Iterator[ClusterUnderTest]:
    folder = tmp_path_factory.mktemp("two")
    with running(ClusterUnderTest(folder, home, indico=("one", "two"))) as made:
        fill(made)
        yield made


def fill(under_test: ClusterUnderTest) -> None:
    under_test.begin_indico()
    bulkload(
        under_test, "--conferences", str(CONFERENCES), "--contributions", "4", "--categories", "2"
    )


def bench(under_test: ClusterUnderTest, *arguments: str) -> dict[str, Any]:
    done = under_test.cli("bench", "in-app", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def by_cell(found: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (each["test"], each["parameters"]["caches"]): each["details"]
        for each in found["measurements"]
    }


def test_every_test_is_made_in_every_state_of_the_caches_and_kept(pair: ClusterUnderTest) -> None:
    found = bench(pair, "--quick")
    answers = by_cell(found)
    assert {(test, caches) for test in in_app.TESTS for caches in in_app.CACHES} == set(answers)
    run = results.read_all(pair.cluster)[0]
    assert run.is_complete
    assert not run.failed
    assert ("zrs", "one", "test") == (run.backend, run.settings["options"]["instance"], run.cluster)
    assert run.versions["ZODB"] == "5.8.1"
    assert "indico_zodbrepl" in run.versions
    assert run.environment["cores"] >= 1
    assert {RUNNING: pair.path.read_text()} == run.configs
    assert {"node-a", "node-b", "indico-one"} <= set(run.measurements[0].cpu)
    assert len(rows(run)) == len(answers)


def test_caches_answer_what_they_should(pair: ClusterUnderTest) -> None:
    answers = by_cell(bench(pair, "--quick", "--test", "testReadContributionsThroughput"))
    cold, warm, hot = (
        answers["testReadContributionsThroughput", each] for each in ("cold", "warm", "hot")
    )
    assert cold["client_cache"]["misses"] >= cold["different"]
    assert cold["storage"]["loads"] == cold["client_cache"]["misses"]
    assert warm["client_cache"]["misses"] == 0
    assert warm["client_cache"]["hits"] == warm["connection_cache"]["misses"] > 0
    assert hot["connection_cache"]["misses"] == hot["storage"]["loads"] == 0


@pytest.mark.parametrize(
    "modify",
    [
        pytest.param(each, marks=pytest.mark.exhaustive if number else ())
        for number, each in enumerate(in_app.MODIFY)
    ],
)
def test_modifications_reach_both_nodes_and_are_put_back_on_both(
    pair: ClusterUnderTest, modify: str
) -> None:
    indico = Indico27(pair.cluster, pair.installation)
    before = compare(pair.cluster, indico)
    found = bench(pair, "--quick", "--modify", modify, "--test", "testWriteConferencesLatency")
    for answer in by_cell(found).values():
        assert answer["modify"] == modify
        assert answer["storage"]["stores"] >= answer["operations"] > 0
        assert answer["put_back"] == answer["different"]
    assert compare(pair.cluster, indico) == before


@pytest.mark.exhaustive
def test_two_instances_at_once_share_no_conference_and_try_again_after_conflicts(
    pair_with_two_instances: ClusterUnderTest,
) -> None:
    pair = pair_with_two_instances
    indico = Indico27(pair.cluster, pair.installation)
    before = compare(pair.cluster, indico)
    fields = {"count": str(CONFERENCES // 2), "seconds": "20", "modify": "title"}
    endpoints = [Endpoint.of(pair.cluster, each) for each in pair.cluster.indico]
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda each: each.measure(WRITE[1], fields, 20.0), endpoints))
    assert [each["instance"] for each in answers] == ["one", "two"]
    assert [each["put_back"] for each in answers] == [CONFERENCES // 2] * 2
    assert sum(each["conflicts"]["retried"] for each in answers) > 0
    assert compare(pair.cluster, indico) == before


@pytest.mark.exhaustive
def test_what_a_killed_instance_left_is_put_back_after_a_switchover(pair: ClusterUnderTest) -> None:
    """The journal is in the database, so it is where the data are."""
    indico = Indico27(pair.cluster, pair.installation)
    before = compare(pair.cluster, indico)
    [one], [a, _] = pair.cluster.indico, pair.cluster.nodes
    size = data_fs(a).stat().st_size
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(
            Endpoint.of(pair.cluster, one).measure,
            WRITE[1],
            {"seconds": "300", "modify": "contribution"},
            300.0,
        )
        wait_until(lambda: data_fs(a).stat().st_size > size + 200_000, "modified")
        kill(pair.pid_of(one.program))
        assert isinstance(asked.exception(PATIENCE), OperatorError)
    done = pair.cli("switchover", "b")
    assert done.returncode == 0, done.stdout + done.stderr
    pair.start()
    found = bench(pair, "--quick", "--test", "testReadCategoryThroughput")
    repaired = [each["put_back_of_earlier"] for each in by_cell(found).values()]
    assert repaired[0] > 0
    assert repaired[1:] == [0, 0]
    assert compare(pair.cluster, indico) == before


def kill(master: int) -> None:
    """Kill a gunicorn and its workers at once."""
    workers = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    for pid in [master, *map(int, workers)]:
        os.kill(pid, signal.SIGKILL)


def test_a_table_tells_people_what_was_measured(pair: ClusterUnderTest) -> None:
    done = pair.cli("bench", "in-app", "--quick", "--test", "testReadCategoryThroughput")
    assert done.returncode == 0, done.stderr
    assert "testReadCategoryThroughput" in done.stdout
    assert "3/3" in done.stderr
    assert "\x1b" not in done.stdout
    assert str(results.read_all(pair.cluster)[0].folder) in done.stdout


def test_the_secret_is_for_its_owner_alone(pair: ClusterUnderTest) -> None:
    mode = Layout(pair.cluster).bench_secret.stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_an_interruption_keeps_what_was_measured_and_lets_the_next_one_begin(
    pair: ClusterUnderTest,
) -> None:
    before = results.read_all(pair.cluster)
    process = subprocess.Popen(
        [
            pair.installation.zodbrepl,
            "-c",
            pair.path,
            "bench",
            "in-app",
            "--seconds",
            "1",
            "--test",
            "testReadCategoryThroughput",
            "--rounds",
            "100",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(
        lambda: (
            len(results.read_all(pair.cluster)) > len(before)
            and len(results.read_all(pair.cluster)[0].measurements) >= 2
        ),
        "two are there",
    )
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert "testReadCategoryThroughput" in output
    run = results.read_all(pair.cluster)[0]
    assert not run.is_complete
    assert run.ended is not None
    assert 2 <= len(run.measurements) < run.planned
    next_one = ("bench", "in-app", "--quick", "--test", "testReadCategoryThroughput")
    wait_until(lambda: pair.cli(*next_one).returncode == 0, "the next one")


def test_an_indico_that_does_not_run_is_said_to(pair: ClusterUnderTest) -> None:
    pair.stop("indico-one")
    try:
        done = pair.cli("bench", "in-app", "--quick")
    finally:
        pair.start()
    assert done.returncode == 6
    assert "indico-one does not answer" in done.stderr


@pytest.mark.exhaustive
def test_a_database_without_a_server_is_measured_too(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "sqlite"
    folder.mkdir()
    with running(OnSQLite(folder, home)) as made:
        fill(made)
        found = bench(made, "--quick", "--modify", "contribution")
    answers = by_cell(found)
    assert len(answers) == len(in_app.TESTS) * len(in_app.CACHES)
    warm = answers["testReadContributionsThroughput", "warm"]
    assert warm["client_cache"]["hits"] > 0
    cold = answers["testReadContributionsThroughput", "cold"]
    assert cold["client_cache"]["misses"] > 0
    for each in WRITE:
        assert answers[each, "hot"]["put_back"] > 0
