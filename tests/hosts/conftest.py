"""Fixtures of the tests on several hosts: a laboratory of namespaces on this machine."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "harness"))

from elected import Elected
from labs import MakeLab, labs_in

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.requirements import require
from indico_zodbrepl.errors import OperatorError

# Where the tests run in the background SIGINT is ignored, and programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def _possible() -> None:
    """Skip tests that need a laboratory where there can be none; the reason says what to do."""
    try:
        require()
    except OperatorError as error:
        pytest.skip(f"{error.notice}: {error.detail}; {error.hint}")


@pytest.fixture
def hosts(_possible: None, tmp_path: Path) -> Iterator[MakeLab]:
    """``hosts(3)`` is a lab with h1, h2 and h3, which ends with the test."""
    with labs_in(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def shared_lab(_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three hosts for the tests of a module, which leave them running; use ``lab``."""
    with labs_in(tmp_path_factory.mktemp("labs")) as make:
        yield make(3)


@pytest.fixture
def lab(shared_lab: Lab) -> Iterator[Lab]:
    """Three hosts without faults, shared by the tests of a module."""
    yield shared_lab
    shared_lab.network.heal()
    for host in shared_lab:
        host.thaw()


@pytest.fixture(scope="module")
def shared(shared_lab: Lab) -> Elected:
    """Three hosts that elect their leader, for the tests of a module; use ``three``."""
    found = Elected(shared_lab)
    found.start()
    return found


@pytest.fixture
def three(shared: Elected) -> Iterator[Elected]:
    """Three hosts whose nodes all follow the leader."""
    yield shared
    shared.restore()
