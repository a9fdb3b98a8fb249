"""Loading in bulk into running servers: followers get it like any commit, and Indico goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import PATIENCE, ClusterUnderTest, running

from indico_zodbrepl.demo.comparison import compare
from indico_zodbrepl.host.indico_programs import Indico27

# Several transactions, each of which changes the indexes that the one before has changed.
COMMAND = ("--conferences", "60", "--contributions", "2", "--categories", "3", "--batch", "25")


class OnSQLite(ClusterUnderTest):
    """An Indico whose one instance opens a database file itself."""

    def __init__(self, folder: Path, home: Path) -> None:
        super().__init__(
            folder, home, {"a": ("primary", None)}, ("one",), backend="relstorage-sqlite"
        )

    def write(self) -> None:
        super().write()
        lines = self.path.read_text().splitlines()
        self.path.write_text("\n".join(line for line in lines if "storage-port" not in line))


def bulkload(under_test: ClusterUnderTest, *arguments: str) -> None:
    indico = Indico27(under_test.cluster, under_test.installation)
    done = subprocess.run(
        [under_test.installation.bulkload, *arguments],
        text=True,
        capture_output=True,
        check=False,
        timeout=10 * PATIENCE,
        env=indico.environment,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=["zrs", pytest.param("relstorage-sqlite", marks=pytest.mark.exhaustive)])
def served(
    request: pytest.FixtureRequest, tmp_path: Path, home: Path
) -> Iterator[ClusterUnderTest]:
    """A running cluster with an Indico: a pair of ZRS nodes, or one on SQLite."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = (
        ClusterUnderTest(folder, home, indico=("one",))
        if request.param == "zrs"
        else OnSQLite(folder, home)
    )
    with running(made):
        made.begin_indico()
        yield made


def test_what_is_loaded_in_bulk_is_on_all_nodes_and_further_events_follow(
    served: ClusterUnderTest,
) -> None:
    bulkload(served, *COMMAND)
    bulkload(served, "--conferences", "3", "--contributions", "1", "--add", "--method", "model")
    found = compare(served.cluster, Indico27(served.cluster, served.installation))
    if served.backend == "zrs":
        assert list(found) == ["a", "b"]
    for counts in found.values():
        assert (63, 123, True, []) == tuple(
            counts[key] for key in ("conferences", "contributions", "complete", "problems")
        )
