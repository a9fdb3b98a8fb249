"""What was saturated is told from how busy each program and the machine were."""

from __future__ import annotations

import pytest

from indico_zodbrepl.bench.suites.http_saturation import Saturated, Shares, verdict
from indico_zodbrepl.bench.suites.http_trials import Cores

BROKEN = "p99 900 ms, more than 500 ms"


def shares(
    *,
    worker: float = 0.2,
    storage: float = 0.1,
    generator: float = 0.1,
    machine: float = 0.3,
    disk: float = 0.0,
    waiting: float = 0.05,
) -> Shares:
    return Shares(
        {"indico-i1": worker, "indico-i2": 0.1},
        {"node-a": storage},
        {"indico-i1": 0.05, "indico-i2": waiting},
        generator,
        machine,
        disk,
        2,
    )


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (shares(worker=0.9, machine=0.6), Saturated.WORKER),
        (shares(worker=0.9, machine=1.0), Saturated.WORKER),
        (shares(worker=0.5, storage=0.95), Saturated.STORAGE),
        (shares(worker=0.86, storage=0.95), Saturated.STORAGE),
        (shares(worker=0.8, storage=0.4, generator=0.6, machine=0.98), Saturated.MACHINE),
        (shares(worker=0.4, machine=1.0), Saturated.OTHERS),
        (shares(disk=0.3, waiting=3.0), Saturated.DISK),
        (shares(worker=0.9, waiting=3.0), Saturated.WORKER),
        (shares(waiting=0.12), Saturated.WAIT),
        (shares(), Saturated.OTHER_WAIT),
    ],
)
def test_the_busiest_is_what_was_saturated(found: Shares, what: Saturated) -> None:
    assert what == verdict(found, BROKEN, failed=False).what


def test_nothing_was_saturated_when_the_rate_held() -> None:
    assert Saturated.NOTHING == verdict(shares(worker=0.95), "", failed=False).what


def test_failures_of_an_idle_site_are_no_saturation() -> None:
    found = verdict(shares(), "failed: 3 HTTP status 500", failed=True)
    assert Saturated.FAILURES == found.what
    assert "3 HTTP status 500" in found.why
    assert Saturated.WORKER == verdict(shares(worker=0.9), "failed: 3", failed=True).what


def test_a_site_without_storage_servers_has_a_verdict() -> None:
    found = Shares({"indico-i1": 0.3}, {}, {"indico-i1": 0.4}, 0.1, 0.3, 0.0, 2)
    assert Saturated.WAIT == verdict(found, BROKEN, failed=False).what


def test_the_sentence_tells_the_part_of_the_generator_and_of_other_programs() -> None:
    why = verdict(shares(worker=0.4, machine=1.0), BROKEN, failed=False).why
    assert why == (
        "all 2 cores were busy 100% of the time: the load generator 5%, programs that "
        "are not measured 65%; the busiest one measured, indico-i1, got 40% of a core"
    )


def test_the_sentence_tells_how_long_a_worker_was_in_calls_of_the_storage() -> None:
    why = verdict(shares(waiting=2.5), BROKEN, failed=False).why
    assert why.endswith(
        "in a second indico-i2 was 2.50 s in calls of the storage, over all "
        "threads, and 0.10 s at work"
    )


def test_time_of_the_cores_is_read_from_the_kernel() -> None:
    first = Cores.of("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1\n")
    later = Cores.of("cpu  200 0 200 800 200 0 0 0 0 0\ncpu0 1 1 1\n")
    assert (0.5, 0.25) == first.until(later)
    assert Cores.now().total > 0
