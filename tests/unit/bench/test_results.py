"""Results are on disk after each measurement, and are read again as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import answer, cluster_in

from indico_zodbrepl.bench import results
from indico_zodbrepl.bench.results import Measurement
from indico_zodbrepl.errors import OperatorError

READ = Measurement("testReadCategoryThroughput", "cold", "", 1, answer())
FAILED = Measurement("testReadCategoryThroughput", "hot", "", 1, {}, "the storage failed")


def test_what_was_measured_is_read_again(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    run = results.begin(cluster, "in-app", "one", 2, {"seconds": 1.0})
    run = results.with_measurement(run, READ)
    run = results.end(results.with_measurement(run, FAILED))
    found, = results.read_all(cluster)
    assert (READ, FAILED) == found.measurements
    assert [FAILED] == list(found.failed)
    assert found.is_complete
    assert found.versions["ZODB"] == "5.8.1"
    assert (tmp_path / "cluster.conf").read_text() == found.config
    assert found.environment["cores"] >= 1
    assert json.loads(results.as_json(run)) == json.loads(results.as_json(found))


def test_each_measurement_is_there_before_the_next_one(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    run = results.begin(cluster, "in-app", "one", 2, {})
    assert results.read_all(cluster)[0].measurements == ()
    results.with_measurement(run, READ)
    found, = results.read_all(cluster)
    assert (READ,) == found.measurements
    assert found.ended is None
    assert not found.is_complete


def test_the_newest_run_is_first_also_within_a_second(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    runs = [results.begin(cluster, "in-app", name, 1, {}) for name in ("one", "two", "three")]
    assert [run.folder for run in reversed(runs)] == [
        run.folder for run in results.read_all(cluster)]


def test_without_a_run_there_is_nothing(tmp_path: Path) -> None:
    assert results.read_all(cluster_in(tmp_path)) == []


@pytest.mark.parametrize(("text", "problem"), [
    ("{", "damaged"), ("[]", "damaged"), ('{"format": 99}', "another version"),
    ('{"format": 1, "measurements": [{}]}', "damaged")])
def test_a_file_that_cannot_be_read_says_so_and_hides_no_other(
        tmp_path: Path, text: str, problem: str) -> None:
    cluster = cluster_in(tmp_path)
    good = results.begin(cluster, "in-app", "one", 1, {})
    bad = results.begin(cluster, "in-app", "one", 1, {})
    (bad.folder / results.FILE).write_text(text)
    found = {run.folder: run for run in results.read_all(cluster)}
    assert problem in found[bad.folder].problem
    assert found[bad.folder].suite == "in-app"
    assert not found[bad.folder].is_complete
    assert found[good.folder].problem == ""


def test_a_folder_that_cannot_be_made_is_told_to_the_operator(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    cluster.var_directory.write_text("a file in its place")
    with pytest.raises(OperatorError, match="results can't be kept"):
        results.begin(cluster, "in-app", "one", 1, {})
