"""An interrupted run can be continued: it measures what is missing, and nothing twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from counting_suite import Counting, Run, with_suites
from runs import cluster_in

from indico_zodbrepl.bench import machine, results
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import locking


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return cluster_in(tmp_path)


@pytest.fixture
def bench(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    return with_suites(cluster, monkeypatch)


@pytest.fixture
def interrupted(bench: Run, cluster: Cluster) -> Path:
    """The folder of a run with two of six measurements, one of them failed."""
    suite = Counting("count", OperatorError("it broke"), 2, KeyboardInterrupt())
    done = bench([suite], "count", "--rounds", "3")
    assert done.exit_code == 130
    (run,) = results.read_all(cluster)
    assert f"bench resume {run.folder}" in done.stdout
    return run.folder


def test_what_is_missing_is_measured_with_the_settings_of_the_run(
    bench: Run, interrupted: Path
) -> None:
    done = bench([Counting("count", 3, 4, 5, 6)], "resume", str(interrupted))
    assert done.exit_code == 1
    assert "1 of 6 measurements failed" in done.stderr
    assert "3/6 in-memory: one, round 2" in done.stderr
    assert "bench resume" not in done.stdout
    run = results.read(interrupted)
    assert run.is_complete
    assert [None, 2, 3, 4, 5, 6] == [each.metrics.get("rate") for each in run.measurements]
    assert [1, 1, 2, 2, 3, 3] == [each.round for each in run.measurements]
    assert run.ended is not None
    assert [True] == [run.began < each["began"] < run.ended for each in run.resumed]


def test_a_run_can_be_interrupted_again(bench: Run, interrupted: Path) -> None:
    suite = Counting("count", 3, KeyboardInterrupt())
    assert bench([suite], "resume", str(interrupted)).exit_code == 130
    assert bench([Counting("count", 4, 5, 6)], "resume", str(interrupted)).exit_code == 1
    run = results.read(interrupted)
    assert [None, 2, 3, 4, 5, 6] == [each.metrics.get("rate") for each in run.measurements]
    assert len(run.resumed) == 2


def test_a_complete_run_is_shown_and_not_touched(bench: Run, cluster: Cluster) -> None:
    assert bench([Counting("count", *range(1, 7))], "count").exit_code == 0
    (run,) = results.read_all(cluster)
    before = (run.folder / results.FILE).read_bytes()
    done = bench([Counting("count")], "resume", str(run.folder))
    assert done.exit_code == 0, done.output
    assert "6 of 6 measurements" in done.stdout
    assert "bringing up" not in done.stderr
    assert before == (run.folder / results.FILE).read_bytes()


@pytest.mark.parametrize("key", ["cpu", "cores", "python", "disk", "version"])
def test_figures_of_two_machines_disks_or_versions_are_not_mixed(
    bench: Run, interrupted: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    before = (interrupted / results.FILE).read_bytes()
    if key == "version":
        monkeypatch.setattr(results, "version", lambda: "99")
    else:
        other = {"device": "/dev/other", "type": "ext9"} if key == "disk" else "another"
        described = {**machine.describe(interrupted), key: other}
        monkeypatch.setattr(machine, "describe", lambda _disk: described)
    done = bench([Counting("count", 3)], "resume", str(interrupted))
    assert done.exit_code == 8
    assert "cannot be continued here" in done.stderr
    assert f"{key}: " in done.stderr
    assert before == (interrupted / results.FILE).read_bytes()


def test_two_benchmarks_never_write_to_one_folder(bench: Run, interrupted: Path) -> None:
    descriptor = os.open(interrupted, os.O_RDONLY)
    try:
        assert locking.take(descriptor)
        done = bench([Counting("count", 3)], "resume", str(interrupted))
    finally:
        os.close(descriptor)
    assert done.exit_code == 8
    assert "another benchmark writes its results" in done.stderr


@pytest.mark.parametrize("text", ["", "{}", '{"format": 99}'])
def test_damaged_results_are_not_continued(bench: Run, interrupted: Path, text: str) -> None:
    (interrupted / results.FILE).write_text(text)
    done = bench([Counting("count", 3)], "resume", str(interrupted))
    assert done.exit_code == 2
    assert "cannot be continued" in done.stderr
    assert text == (interrupted / results.FILE).read_text()


def test_a_folder_without_a_run_is_refused(bench: Run, tmp_path: Path) -> None:
    done = bench([Counting("count", 3)], "resume", str(tmp_path))
    assert done.exit_code == 2
    assert f"there is no run in {tmp_path}" in done.stderr


def test_all_suites_are_continued_where_they_were_interrupted(bench: Run, cluster: Cluster) -> None:
    first = [
        Counting("whole", *range(1, 7)),
        Counting("half", 1, 2, KeyboardInterrupt()),
        Counting("none"),
    ]
    done = bench(first, "all")
    assert done.exit_code == 130
    (folder,) = {run.folder.parent for run in results.read_all(cluster)}
    assert f"bench resume {folder}" in done.stdout
    rest = [Counting("whole"), Counting("half", 3, 4, 5, 6), Counting("none", *range(1, 7))]
    done = bench(rest, "resume", str(folder))
    assert done.exit_code == 0, done.output
    assert done.stderr.count("bringing up") == 2
    assert "bench resume" not in done.stdout
    for run in results.read_folder(folder):
        assert run.is_complete
        assert list(range(1, 7)) == [each.metrics["rate"] for each in run.measurements]


def test_all_suites_are_continued_as_quickly_as_they_began(bench: Run, cluster: Cluster) -> None:
    first = [Counting("one", KeyboardInterrupt()), Counting("other")]
    assert bench(first, "all", "--quick").exit_code == 130
    (folder,) = {run.folder.parent for run in results.read_all(cluster)}
    done = bench([Counting("one", 1), Counting("other", 2)], "resume", str(folder))
    assert done.exit_code == 0, done.output
    assert [True, True] == [run.settings["quick"] for run in results.read_folder(folder)]


def test_a_damaged_note_of_all_suites_is_refused(bench: Run, tmp_path: Path) -> None:
    (tmp_path / results.ALL_FILE).write_text(json.dumps({"format": results.FORMAT}))
    done = bench([], "resume", str(tmp_path))
    assert done.exit_code == 2
    assert "cannot be read" in done.stderr
