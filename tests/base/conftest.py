"""Fixtures of the base tests; $ZODBREPL_HOME names the installation they use."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "integration")]

from kinds import KINDS, ClusterOfKind, Kind, missing_program  # noqa: E402
from site_under_test import Site, opened  # noqa: E402

# Where the tests run in the background SIGINT is ignored, and programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def home() -> Path:
    """The installation: $ZODBREPL_HOME, else the folder of the clone."""
    return Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()


# A data file behind servers, and SQL. The other storages repeat their tests.
IN_EVERY_RUN = ("zrs", "relstorage-postgresql")
PARAMETERS = [
    pytest.param(
        kind,
        id=kind.backend,
        marks=() if kind.backend in IN_EVERY_RUN else pytest.mark.exhaustive,
    )
    for kind in KINDS
]


@pytest.fixture(scope="module", params=PARAMETERS)
def site(request: pytest.FixtureRequest, home: Path) -> Iterator[Site]:
    """An Indico with data on one kind of storage, for all tests of the module."""
    kind: Kind = request.param
    # Not in pytest's folder, which only this user can enter: some servers run as another one.
    folder = Path(tempfile.mkdtemp(prefix="zodbrepl-base-"))
    folder.chmod(0o755)
    (folder / "cluster").mkdir()
    (folder / "tests").mkdir()
    cluster = ClusterOfKind(folder / "cluster", home, kind)
    try:
        if missing := kind.untested or missing_program(cluster):
            pytest.skip(f"{kind.backend}: {missing}")
        with opened(cluster, folder / "tests") as made:
            yield made
    finally:
        cluster.close()
        shutil.rmtree(folder)
