"""Fixtures of the base tests; $ZODBREPL_HOME names the installation they use.

The report of the run tells of each storage whether it was tested: a property of the test suite.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "integration")]

from kinds import KINDS, ClusterOfKind, Kind, missing_program  # noqa: E402
from site_under_test import Site, opened  # noqa: E402

# Where the tests run in the background SIGINT is ignored, and programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

FAILED = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FAILED] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]  # noqa: ARG001
                              ) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    callspec = getattr(item, "callspec", None)
    if report.failed and callspec is not None and "site" in callspec.params:
        item.config.stash[FAILED].add(callspec.params["site"].backend)
    return report  # type: ignore[return-value]


@pytest.fixture(scope="session")
def home() -> Path:
    """The installation: $ZODBREPL_HOME, else the folder of the clone."""
    return Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()


@pytest.fixture(scope="module", params=KINDS, ids=[kind.backend for kind in KINDS])
def site(request: pytest.FixtureRequest, home: Path,
         record_testsuite_property: Callable[[str, object], None]) -> Iterator[Site]:
    """An Indico with data on one kind of storage, for all tests of the module."""
    kind: Kind = request.param

    def tell(word: str) -> None:
        record_testsuite_property(f"storage {kind.backend}", word)

    # Not in pytest's folder, which only this user can enter: some servers run as another one.
    folder = Path(tempfile.mkdtemp(prefix="zodbrepl-base-"))
    folder.chmod(0o755)
    (folder / "cluster").mkdir()
    (folder / "tests").mkdir()
    cluster = ClusterOfKind(folder / "cluster", home, kind)
    try:
        if missing := kind.untested or missing_program(cluster):
            tell(f"skipped: {missing}")
            pytest.skip(f"{kind.backend}: {missing}")
        with opened(cluster, folder / "tests") as made:
            yield made
        tell("failed" if kind.backend in request.config.stash[FAILED] else "tested")
    finally:
        cluster.close()
        shutil.rmtree(folder)
