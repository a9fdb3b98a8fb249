"""Workers are asked for all pages by as many clients as they have threads, for a limited time."""

from __future__ import annotations

import collections
import time

import pytest
from pages_server import CLOSING, STALL_SECONDS, STALLING, two_servers

from indico_zodbrepl.bench.suites.http_trials import warm
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.cluster.rendering import INDICO_THREADS
from indico_zodbrepl.errors import ExitCode, OperatorError

PAGES = [f"/event/{number}/" for number in range(10)]


def instance(base: str) -> IndicoInstance:
    return IndicoInstance("i1", "127.0.0.1", int(base.rpartition(":")[2]))


def test_each_client_asks_each_worker_for_each_page() -> None:
    with two_servers() as servers:
        asked = warm([instance(each.base) for each in servers], PAGES, 60.0)
        for each in servers:
            counted = collections.Counter(each.asked)
            assert {f"/indico{path}" for path in PAGES} == set(counted)
            assert {INDICO_THREADS} == set(counted.values())
    assert 2 * INDICO_THREADS * len(PAGES) == asked


def test_it_ends_when_the_time_is_up() -> None:
    with two_servers() as (server, _):
        began = time.monotonic()
        asked = warm([instance(server.base)], [STALLING] * 100, STALL_SECONDS / 2)
    assert INDICO_THREADS == asked
    assert time.monotonic() - began >= STALL_SECONDS


def test_a_worker_that_does_not_answer_is_reported_at_once() -> None:
    with two_servers() as (server, other):
        with pytest.raises(OperatorError, match="does not answer") as raised:
            warm([instance(server.base), instance(other.base)], [*PAGES, CLOSING], 60.0)
        assert ExitCode.NOT_RUNNING == raised.value.exit_code
        assert len(server.asked) + len(other.asked) < 2 * INDICO_THREADS * (len(PAGES) + 1)
