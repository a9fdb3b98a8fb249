"""One command makes every suite quickly, on scratch clusters, and its results can be read again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from clusters import ClusterUnderTest

from indico_zodbrepl.bench import results, suite
from indico_zodbrepl.bench.sites import site

SECONDS = 1500
"""Three minutes are enough on a machine that does nothing else."""


@pytest.mark.exhaustive  # each suite has a test of its own
def test_every_suite_is_made_and_nothing_is_left(cluster: ClusterUnderTest, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    cluster.folder.joinpath("var").mkdir()
    done = subprocess.run(
        [
            cluster.installation.zodbrepl,
            "-c",
            cluster.path,
            "bench",
            "all",
            "--quick",
            "--data-directory",
            scratch,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    runs = results.read_all(cluster.cluster)
    assert set(suite.known()) == {run.suite for run in runs}
    assert all(run.is_complete and not run.failed for run in runs)
    assert all(any(each.metrics for each in run.measurements) for run in runs)
    (folder,) = {run.folder.parent for run in runs}
    for run in runs:
        assert f"{run.suite:<13} {run.planned} of {run.planned} measurements" in done.stdout
    assert f"bench report {folder}" in done.stdout
    assert site.processes_in(scratch) == []
    assert list(scratch.iterdir()) == []

    compared = cluster.cli("bench", "compare", "--json", str(folder), str(folder))
    assert compared.returncode == 0, compared.stderr
    found = json.loads(compared.stdout)["comparisons"]
    assert {each["suite"] for each in found} == set(suite.known())
    assert {pair["verdict"] for each in found for pair in each["pairs"]} == {"one round only"}

    reported = cluster.cli("bench", "report", str(folder))
    assert reported.returncode == 0, reported.stderr
    assert Path(reported.stdout.strip()).is_file()
