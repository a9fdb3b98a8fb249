"""Fixtures of the tests that click through real operations; $ZODBREPL_HOME names the installation.

Without Chromium all of them are skipped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from indico_zodbrepl.demo.lab.requirements import require
from indico_zodbrepl.errors import OperatorError

HERE = Path(__file__).parent
sys.path[:0] = [
    str(HERE / "harness"),
    str(HERE.parent / "unit/browser"),
    str(HERE.parent / "integration"),
]

import chromium  # noqa: E402
import demo_hosts  # noqa: E402
from clusters import ClusterUnderTest, MakeCluster  # noqa: E402

# Where the tests run in the background SIGINT is ignored, and programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def home() -> Path:
    """The installation: $ZODBREPL_HOME, else the folder of the clone."""
    return Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    if chromium.PROGRAM is None:
        pytest.skip(chromium.MISSING)
    with chromium.running() as started:
        yield started


@pytest.fixture(scope="session")
def tabs(browser: Browser) -> chromium.Tabs:
    """The tabs of all tests."""
    return chromium.Tabs(browser)


@pytest.fixture
def new_tab(tabs: chromium.Tabs) -> Iterator[chromium.NewTab]:
    """A function: an empty tab with cookies of its own, left after the test."""
    with contextlib.ExitStack() as opened:

        def make(width: int = 1280, scheme: chromium.Scheme = "light") -> chromium.Tab:
            tab = tabs.take(width, scheme)
            opened.callback(tabs.give_back, tab)
            return tab

        yield make


@pytest.fixture(scope="module")
def make_cluster(
    browser: Browser,  # noqa: ARG001 - skips first
    tmp_path_factory: pytest.TempPathFactory,
    home: Path,
) -> Iterator[MakeCluster]:
    """A function that makes ZRS pairs; all are ended after the module's tests."""
    with contextlib.ExitStack() as opened:

        def make(indico: tuple[str, ...] = ()) -> ClusterUnderTest:
            made = ClusterUnderTest(tmp_path_factory.mktemp("cluster"), home, None, indico)
            opened.callback(made.close)
            return made

        yield make


@pytest.fixture(scope="module")
def demo(
    request: pytest.FixtureRequest,
    browser: Browser,  # noqa: ARG001 - skips first
    home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[demo_hosts.Demo]:
    """The demo with its hosts h1, h2 and h3; the primary is node a, on h1.

    It replaces a lost primary automatically if the module's AUTOMATIC is True.
    """
    try:
        require()
    except OperatorError as error:
        pytest.skip(f"{error.notice}: {error.detail}")
    folder = tmp_path_factory.mktemp("demo")
    with demo_hosts.demo(home, folder, 2, automatic=request.module.AUTOMATIC) as made:
        yield made
