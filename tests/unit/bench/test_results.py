"""Results are on disk after each measurement, and are read again as they were."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from runs import answer, cluster_in

from indico_zodbrepl.bench import results
from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError

READ = Measurement(
    "zeo", "read", {"objects": 100}, 1, {"rate": 2.0}, answer(), {"node-a": 0.5}, 1.0, 2.0
)
FAILED = Measurement("zrs", "read", {"objects": 100}, 1, error="the storage failed")


def begun(cluster: Cluster, suite: str = "raw") -> Run:
    folder = results.new_folder(cluster, suite)
    return results.begin(folder, cluster, suite, {"seconds": 1.0}, folder)


def test_what_was_measured_is_read_again(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    run = results.write(results.with_measurement(begun(cluster), READ))
    run = results.end(results.with_measurement(run, FAILED))
    (found,) = results.read_all(cluster)
    assert (READ, FAILED) == found.measurements
    assert [FAILED] == list(found.failed)
    assert found.versions["ZODB"] == "5.8.1"
    assert found.environment["cores"] >= 1
    assert json.loads(results.as_json(run)) == json.loads(results.as_json(found))


def test_medians_and_spread_are_kept_for_other_programs(tmp_path: Path) -> None:
    run = begun(cluster_in(tmp_path))
    for number, rate in enumerate((2.0, 5.0, 3.0), 1):
        made = dataclasses.replace(READ, round=number, metrics={"rate": rate})
        run = results.write(results.with_measurement(run, made))
    (row,) = json.loads((run.folder / results.FILE).read_text())["summary"]
    assert ("zeo", "read", {"objects": 100}, 3) == (
        row["storage"],
        row["test"],
        row["parameters"],
        row["rounds"],
    )
    assert {"median": 3.0, "least": 2.0, "most": 5.0} == row["metrics"]["rate"]
    assert run.measurements == results.read(run.folder).measurements


def test_each_measurement_is_there_before_the_next_one(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    run = begun(cluster)
    assert results.read_all(cluster)[0].measurements == ()
    results.write(results.with_measurement(run, READ))
    (found,) = results.read_all(cluster)
    assert (READ,) == found.measurements
    assert found.ended is None
    assert not found.is_complete


@pytest.mark.parametrize(
    ("planned", "made", "ended", "complete"),
    [
        (1, (READ,), 2.0, True),
        (2, (READ,), 2.0, False),
        (1, (READ,), None, False),
        (0, (), 2.0, False),
    ],
)
def test_a_run_is_complete_when_all_that_was_planned_was_measured(
    planned: int, made: tuple[Measurement, ...], ended: float | None, complete: bool
) -> None:
    assert complete == Run(Path("x"), "raw", 1.0, ended, planned, measurements=made).is_complete


def test_the_newest_run_is_first_also_within_a_second(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    runs = [begun(cluster) for _ in range(3)]
    assert [run.folder for run in reversed(runs)] == [
        run.folder for run in results.read_all(cluster)
    ]


def test_suites_of_one_command_are_in_one_folder(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    folder = results.new_folder(cluster, "all")
    for suite in ("raw", "http"):
        results.begin(folder / suite, cluster, suite, {}, folder)
    assert {f"{folder.name}/raw", f"{folder.name}/http"} == {
        run.name for run in results.read_all(cluster)
    }
    assert ["raw", "http"] == [run.suite for run in results.read_folder(folder)]
    assert ["http"] == [run.suite for run in results.read_folder(folder / "http")]


def test_a_folder_without_results_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="no results in") as raised:
        results.read_folder(tmp_path / "gone")
    assert raised.value.exit_code == ExitCode.BAD_CONFIG


def test_without_a_run_there_is_nothing(tmp_path: Path) -> None:
    assert results.read_all(cluster_in(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": 99}', "another version"),
        ('{"format": 1}', "another version"),
        ('{"format": 2, "measurements": [{}]}', "damaged"),
    ],
)
def test_a_file_that_cannot_be_read_says_so_and_hides_no_other(
    tmp_path: Path, text: str, problem: str
) -> None:
    cluster = cluster_in(tmp_path)
    good, bad = begun(cluster), begun(cluster)
    (bad.folder / results.FILE).write_text(text)
    found = {run.folder: run for run in results.read_all(cluster)}
    assert problem in found[bad.folder].problem
    assert found[bad.folder].suite == "raw"
    assert not found[bad.folder].is_complete
    assert found[good.folder].problem == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"rate": 2.0', '"rate": "x"'),
        ('"rate": 2.0', '"rate": NaN'),
        ('"rate": 2.0', f'"rate": 1{400 * "0"}'),
        ('"objects": 100', '"objects": [1]'),
        ('"settings": {', '"settings": [], "x": {'),
        ('"seconds": 1.0', '"options": 3'),
        ('"suite": "raw"', '"suite": 7'),
        ('"suite": "raw"', '"suite": "raw", "problem": 3'),
    ],
)
def test_values_that_no_program_of_ours_wrote_are_a_problem(
    tmp_path: Path, old: str, new: str
) -> None:
    """Comparisons, tables and pages need not look at types again."""
    run = results.write(results.with_measurement(begun(cluster_in(tmp_path)), READ))
    file = run.folder / results.FILE
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    assert results.read(run.folder).problem.startswith("it is damaged: ")


def test_a_folder_that_cannot_be_made_is_told_to_the_operator(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    cluster.var_directory.write_text("a file in its place")
    with pytest.raises(OperatorError, match="results can't be kept"):
        results.new_folder(cluster, "raw")


@pytest.mark.parametrize(
    ("folder", "label"),
    [
        ("20261122T024025Z-in-app", "in-app"),
        ("in-app", "in-app"),
        ("in-app-pinned", "in-app-pinned"),
        ("kept", "in-app"),
    ],
)
def test_a_run_is_called_as_its_suite_or_as_a_folder_that_says_more(
    folder: str, label: str
) -> None:
    assert label == Run(Path("var/bench") / folder, "in-app").label
