"""The commands of bench, with suites that measure nothing but themselves."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from counting_suite import Counting, Run, with_suites
from runs import cluster_in

from indico_zodbrepl.bench import results
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY
from indico_zodbrepl.bench.suites import in_app
from indico_zodbrepl.cli import bench_run
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.supervisor import SupervisorAwayError


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return cluster_in(tmp_path)


@pytest.fixture
def bench(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    return with_suites(cluster, monkeypatch)


def test_a_suite_is_made_shown_and_kept(bench: Run, cluster: Cluster) -> None:
    done = bench([Counting("count", *range(1, 7))], "count")
    assert done.exit_code == 0, done.output
    (run,) = results.read_all(cluster)
    assert run.is_complete
    assert [1, 2, 3, 4, 5, 6] == [each.metrics["rate"] for each in run.measurements]
    assert "bringing up in memory" in done.stderr
    assert "6/6 in-memory: two, round 3" in done.stderr
    assert ["in", "memory", "3", "67%"] == done.stdout.splitlines()[5].split()
    assert f"bench report {run.folder}" in done.stdout


def test_as_json_a_program_can_read_it(bench: Run) -> None:
    done = bench([Counting("count", 5)], "count", "--quick", "--tests", "two", "--json")
    found = json.loads(done.stdout)
    assert ["two"] == [each["test"] for each in found["measurements"]]
    assert (1, 0.1, True) == tuple(
        found["settings"][name] for name in ("rounds", "seconds", "quick")
    )


def test_a_measurement_that_failed_is_reported_and_the_others_are_made(
    bench: Run, cluster: Cluster
) -> None:
    done = bench([Counting("count", OperatorError("it broke"), 2)], "count", "--rounds", "1")
    assert done.exit_code == 1
    assert "failed: in memory, one: it broke" in done.stdout
    assert "1 of 2 measurements failed" in done.stderr
    assert results.read_all(cluster)[0].is_complete


def test_a_storage_whose_supervisor_is_away_ends_no_run(
    bench: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[dict[str, int]] = [{}]

    def pids(_site: Site) -> dict[str, int]:
        if not answers:
            raise SupervisorAwayError("no supervisor answers")
        return answers.pop()

    monkeypatch.setattr(Site, "pids", pids)
    done = bench([Counting("count", 1, 2)], "count", "--rounds", "1")
    assert done.exit_code == 1
    assert ["", "no supervisor answers"] == [
        each.error for each in results.read_all(cluster)[0].measurements
    ]


def test_a_full_disk_is_reported_and_what_was_measured_is_kept(
    bench: Run, cluster: Cluster
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/scratch/x")
    done = bench([Counting("count", 7, full)], "count", "--rounds", "1")
    assert done.exit_code == 1
    assert "/scratch/x: No space left on device" in done.stderr
    assert [7] == [
        each.metrics["rate"] for each in results.read_all(cluster)[0].measurements if each.metrics
    ]


def test_results_that_can_not_be_kept_end_a_run_and_keep_what_was(
    bench: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        if text.count('"round":') > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomically(path, text)

    monkeypatch.setattr(results, "write_atomically", full)
    done = bench([Counting("count", *range(6))], "count")
    assert done.exit_code == 1
    assert "results can't be kept" in done.stderr
    assert "1 of 6 measurements" in done.stdout
    assert len(results.read_all(cluster)[0].measurements) == 1


def test_a_storage_that_was_named_is_wanted(bench: Run) -> None:
    done = bench([Counting("count", 1)], "count", "--quick", "--storages", "in-memory,zeo")
    assert done.exit_code == 1
    assert "left out: ZEO: only what is in memory is counted" in done.stdout
    assert "1 storage could not be measured" in done.stderr


def test_an_interruption_shows_what_was_measured(bench: Run, cluster: Cluster) -> None:
    done = bench([Counting("count", 7, KeyboardInterrupt())], "count")
    assert done.exit_code == 130
    assert "1 of 6 measurements" in done.stdout
    assert [7] == [each.metrics["rate"] for each in results.read_all(cluster)[0].measurements]


def test_an_interruption_right_after_a_measurement_was_written_keeps_it(
    bench: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = results.write

    def write_and_interrupt(run: results.Run) -> results.Run:
        write(run)
        if run.measurements and run.ended is None:
            raise KeyboardInterrupt
        return run

    monkeypatch.setattr(results, "write", write_and_interrupt)
    done = bench([Counting("count", 7, 8)], "count")
    assert done.exit_code == 130
    assert [7] == [each.metrics["rate"] for each in results.read_all(cluster)[0].measurements]


def test_all_suites_are_made_into_one_folder(bench: Run, cluster: Cluster) -> None:
    done = bench([Counting("first", 1), Counting("second", 2)], "all", "--quick")
    assert done.exit_code == 0, done.output
    runs = results.read_all(cluster)
    assert {"first", "second"} == {run.suite for run in runs}
    assert len({run.folder.parent for run in runs}) == 1
    assert "suite 2 of 2: second" in done.stderr
    assert done.stderr.count("bringing up") == 1, "in quick runs suites share sites"
    assert f"bench report {runs[0].folder.parent}" in done.stdout


def test_a_suite_that_fails_as_a_whole_is_reported_and_the_others_are_made(
    bench: Run, cluster: Cluster
) -> None:
    done = bench([Counting("broken"), Counting("whole", 2)], "all", "--quick")
    assert done.exit_code == 1
    assert "ValueError('a bug')" in done.stdout
    assert "1 of 2 suites failed" in done.stderr
    assert [True] == [run.is_complete for run in results.read_all(cluster) if run.suite == "whole"]


def test_in_full_runs_each_suite_has_sites_of_its_own(bench: Run) -> None:
    done = bench([Counting(name, *range(6)) for name in ("first", "second")], "all")
    assert done.stderr.count("bringing up") == 2


@pytest.mark.parametrize("up", [True, False])
def test_the_tests_inside_indico_are_made_in_the_clusters_own_when_it_runs(
    bench: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, up: bool
) -> None:
    counting = Counting("in-app", 1)
    monkeypatch.setattr(bench_run, "runs", lambda _app: up)
    monkeypatch.setattr(in_app, "for_running", lambda _cluster, settings: settings)
    monkeypatch.setattr(in_app, "SUITE", counting)
    monkeypatch.setattr(Counting, "unfit", lambda _self, _storage: "")
    done = bench([counting], "all", "--quick")
    assert done.exit_code == 0, done.output
    (run,) = results.read_all(cluster)
    assert ["running" if up else IN_MEMORY] == [each.storage for each in run.measurements]
    assert ("bringing up in memory" in done.stderr) == (not up)


def test_two_runs_are_compared(bench: Run, cluster: Cluster) -> None:
    for numbers in (range(1, 7), range(11, 17)):
        assert bench([Counting("count", *numbers)], "count").exit_code == 0
    new, old = (str(run.folder) for run in results.read_all(cluster))
    done = bench([Counting("count")], "compare", old, new)
    assert done.exit_code == 0, done.output
    assert ["in-memory", "one,", "numbers/s", "3", "13", "4.33", "faster"] == [
        each.removesuffix(".0") for each in done.stdout.splitlines()[2].split()
    ]
    found = json.loads(bench([Counting("count")], "compare", old, new, "--json").stdout)
    assert found["comparisons"][0]["pairs"][0]["verdict"] == "faster"


def test_a_file_can_not_make_the_terminal_do_anything(bench: Run, cluster: Cluster) -> None:
    for _ in range(2):
        assert bench([Counting("count", 1, 2)], "count", "--rounds", "1").exit_code == 0
    folders = [str(run.folder) for run in results.read_all(cluster)]
    for number, folder in enumerate(folders):
        file = Path(folder, results.FILE)
        text = file.read_text().replace('"test": "one"', '"test": "[b]\\u001b[31m"')
        text = text.replace('"test": "two"', f'"test": "\\u001b{number}"')
        file.write_text(text.replace('"cpu": "', f'"cpu": "\\u001b{number}'))
    done = bench([Counting("count")], "compare", *folders)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stdout
    assert "[b]?[31m" in done.stdout
    assert "note: cpu: ?0" in done.stdout


def test_folders_of_all_suites_are_compared_suite_by_suite(bench: Run, cluster: Cluster) -> None:
    assert bench([Counting("a", 1), Counting("b", 1)], "all", "--quick").exit_code == 0
    assert bench([Counting("b", 1), Counting("c", 1)], "all", "--quick").exit_code == 0
    new, old = sorted({run.folder.parent for run in results.read_all(cluster)}, reverse=True)
    done = bench([Counting(name) for name in "abc"], "compare", str(old), str(new))
    assert done.exit_code == 0, done.output
    assert "one round only" in done.stdout
    assert f"only in {old}: a" in done.stdout
    assert f"only in {new}: c" in done.stdout


def test_a_folder_without_results_can_not_be_compared(bench: Run, tmp_path: Path) -> None:
    done = bench([], "compare", str(tmp_path), str(tmp_path))
    assert done.exit_code == 2
    assert "there are no results" in done.stderr
