"""Which backups are measured, and how commits meanwhile compare with undisturbed ones."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from indico_zodbrepl.bench.sites import pinning
from indico_zodbrepl.bench.sites.pinning import Cores
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Settings
from indico_zodbrepl.bench.suites import backup
from indico_zodbrepl.bench.suites.backup import SUITE, compared
from indico_zodbrepl.errors import OperatorError

SETTINGS = Settings(1, 1, options={option.name: option.default for option in SUITE.options})


def window(commits: int, seconds: float, p99: float) -> dict[str, Any]:
    return {
        "commits": commits,
        "seconds": seconds,
        "rate": commits / seconds,
        "latency_ms": {"mean": 1, "p50": 1, "p90": 1, "p99": p99, "max": 9},
    }


def test_a_secondarys_file_is_backed_up_where_there_is_one() -> None:
    sources = {
        name: {case.parameters["from"] for case in SUITE.cases(SETTINGS, STORAGES[name])}
        for name in ("zeo", "zrs")
    }
    assert {"zeo": {"none", "primary"}, "zrs": {"none", "primary", "secondary"}} == sources


def test_each_kind_is_measured_alone_and_with_commits() -> None:
    cases = [str(case) for case in SUITE.cases(SETTINGS, STORAGES["zeo"])]
    assert [
        "backup kind full from primary",
        "backup kind incremental from primary",
        "commits kind none from none",
        "commits kind full from primary",
        "commits kind incremental from primary",
    ] == cases


@pytest.mark.parametrize("name", ["in-memory", "filestorage", "neo", "sqlite", "postgresql"])
def test_only_data_files_of_servers_are_backed_up_by_repozo(name: str) -> None:
    assert SUITE.unfit(STORAGES[name])


def test_commits_meanwhile_are_compared_with_those_before_and_after() -> None:
    metrics = compared(window(100, 1, 4), window(150, 2, 9), window(300, 3, 8))
    assert (75, 0.75, 9, 1.5) == (
        metrics["rate"],
        metrics["rate_ratio"],
        metrics["p99_ms"],
        metrics["p99_ratio"],
    )


def test_a_stretch_without_a_commit_is_an_error_and_no_ratio() -> None:
    with pytest.raises(OperatorError, match="nothing was committed"):
        compared(window(0, 1, 4), window(1, 1, 4), window(1, 1, 4))


def test_a_pinned_backup_runs_where_the_node_does_whose_file_it_reads() -> None:
    cores = Cores((0,), (1, 2))
    assert (0,) == backup._cores("primary", cores)
    assert (1, 2) == backup._cores("secondary", cores)
    assert () == backup._cores("secondary", None)


def test_programs_started_within_use_the_named_cores_and_later_ones_all() -> None:
    before = os.sched_getaffinity(0)
    with pinning.on([min(before)]):
        found = subprocess.run(["/usr/bin/nproc"], capture_output=True, text=True, check=True)
    assert "1" == found.stdout.strip()
    assert before == os.sched_getaffinity(0)
