"""The thread that probes for everybody."""

import itertools
import logging
import threading
import time
from collections.abc import Iterator

import pytest
from situations import snapshot

from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.watcher import STALE_AFTER, TimestampedSnapshot, Watcher

GENEROUS = 10.0


def test_many_who_look_cost_one_probe_at_a_time() -> None:
    rounds = itertools.count()
    at_work = threading.Lock()

    def take() -> Snapshot:
        assert at_work.acquire(blocking=False), "two rounds at once"
        next(rounds)
        at_work.release()
        return snapshot()

    watcher = Watcher(take, interval=60)
    watcher.start()
    lookers = [threading.Thread(target=watcher.latest, args=(GENEROUS,)) for _ in range(20)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join(GENEROUS)
    watcher.end()
    assert 1 == next(rounds)


def test_the_first_snapshot_is_waited_for() -> None:
    may_go = threading.Event()

    def take() -> Snapshot:
        may_go.wait(GENEROUS)
        return snapshot()

    watcher = Watcher(take)
    watcher.start()
    assert watcher.latest(patience=0.05) is None
    may_go.set()
    found = watcher.latest(GENEROUS)
    watcher.end()
    assert found is not None
    assert not found.stale


def test_a_failed_round_is_logged_and_the_next_one_counts(caplog: pytest.LogCaptureFixture) -> None:
    results: Iterator[Snapshot | Exception] = itertools.chain(
        [OSError("disk gone")], itertools.repeat(snapshot())
    )

    def take() -> Snapshot:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    with caplog.at_level(logging.ERROR):
        watcher = Watcher(take, interval=0.01)
        watcher.start()
        assert watcher.latest(GENEROUS) is not None
        watcher.end()
    assert "no snapshot could be taken" in caplog.text
    assert "disk gone" in caplog.text


def test_an_old_snapshot_is_stale() -> None:
    assert not TimestampedSnapshot(snapshot(), STALE_AFTER).stale
    assert TimestampedSnapshot(snapshot(), STALE_AFTER + 0.1).stale


def test_each_snapshot_has_the_next_number() -> None:
    watcher = Watcher(snapshot, interval=0.01)
    watcher.start()
    first = watcher.latest(GENEROUS)
    assert first is not None
    deadline = time.monotonic() + GENEROUS
    while (found := watcher.latest()) is not None and found.number < first.number + 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    watcher.end()
    assert first.number >= 1
