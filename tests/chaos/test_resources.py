"""What counts as growth of a program's memory, threads, files and sockets."""

from __future__ import annotations

import dataclasses

import pytest
from resources import Usage, grown

BEFORE = {
    "h1": {"server": Usage(1, 80_000, 9, 40, 20)},
    "h2": {"server": Usage(1, 60_000, 7, 30, 10)},
}


def test_a_program_may_use_on_one_host_what_it_used_on_another() -> None:
    assert [] == list(grown(BEFORE, {"h1": BEFORE["h2"], "h2": BEFORE["h1"]}))
    assert [] == list(grown(BEFORE, {"h1": {}}))


@pytest.mark.parametrize(
    ("what", "value"),
    [("processes", 6), ("memory", 300_000), ("threads", 40), ("files", 300), ("sockets", 80)],
)
def test_what_grows_beyond_that_is_named(what: str, value: int) -> None:
    usage = dataclasses.replace(BEFORE["h1"]["server"], **{what: value})
    (said,) = grown(BEFORE, {"h2": {"server": usage}})
    assert said.startswith(f"h2: server uses {value} {what}")


def test_etcd_may_keep_the_threads_that_waited_for_a_slow_disk() -> None:
    before = {"h1": {"etcd": Usage(1, 60_000, 11, 40, 20)}}
    after = {"h1": {"etcd": Usage(1, 60_000, 47, 40, 20)}}
    assert [] == list(grown(before, after))
    after = {"h1": {"etcd": Usage(1, 60_000, 120, 40, 20)}}
    assert ["h1: etcd uses 120 threads, 11 at the beginning"] == list(grown(before, after))
