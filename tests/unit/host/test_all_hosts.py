"""The stop of all hosts: its order, and what a host that does not answer or fails changes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from two_hosts import CONF

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import DryRun, HostAwayError, ignore
from indico_zodbrepl.host.remote import all_hosts

UPSTREAMS = {"a": "b", "b": None}
FIRST = {("one", "stop_stage admin,indico-i1,scheduler-i1")}
PRIMARY, FOLLOWER = {("two", "stop_stage node-b")}, {("one", "stop_stage node-a")}
REST = {("one", "down"), ("two", "down")}


class Hosts:
    """Hosts that note the calls, in groups that may run at the same time.

    Args:
        failing: the errors of hosts, each by what is called when it first occurs.
    """

    def __init__(self, failing: Mapping[tuple[str, str], OperatorError] | None = None) -> None:
        self._failing = failing or {}
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []

    def __call__(self, host: str, method: str, arguments: Mapping[str, object]) -> object:
        names = arguments.get("names", ())
        assert isinstance(names, list | tuple)
        verb = arguments.get("verb", method)
        what = f"{verb} {','.join(names)}".rstrip()
        with self._lock:
            self.calls.append((host, what))
        if (host, what) in self._failing:
            raise self._failing[host, what]
        return DryRun((), tuple(f"stop {name}" for name in names)) if "verb" in arguments else names


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    (tmp_path / "cluster.conf").write_text(CONF.format(folder=tmp_path))
    return load(tmp_path / "cluster.conf", tmp_path)


def stages(calls: list[tuple[str, str]], *sizes: int) -> list[set[tuple[str, str]]]:
    """Return the calls in groups of these sizes."""
    left = iter(calls)
    return [{next(left) for _ in range(size)} for size in sizes]


def test_the_primary_stops_before_its_followers_and_the_tunnels_last(cluster: Cluster) -> None:
    hosts = Hosts()
    ended = all_hosts.stop(cluster, hosts, UPSTREAMS, ignore)
    assert [FIRST, PRIMARY, FOLLOWER, REST] == stages(hosts.calls, 1, 1, 1, 2)
    assert ["node-b on two", "node-a on one"] == ended[-2:]


def test_a_host_that_does_not_answer_is_left_and_named(cluster: Cluster) -> None:
    away = HostAwayError("host two does not answer", "timed out", "", ExitCode.TIMED_OUT)
    hosts = Hosts({("two", "stop_stage node-b"): away})
    with pytest.raises(OperatorError) as caught:
        all_hosts.stop(cluster, hosts, UPSTREAMS, ignore)
    assert [FIRST, PRIMARY, FOLLOWER, {("one", "down")}] == stages(hosts.calls, 1, 1, 1, 1)
    assert "host two does not answer: its programs were not stopped" == caught.value.notice
    assert ExitCode.TIMED_OUT is caught.value.exit_code


def test_followers_run_on_for_a_primary_that_does_not_stop(cluster: Cluster) -> None:
    late = OperatorError("node-b did not stop in time", exit_code=ExitCode.TIMED_OUT)
    hosts = Hosts({("two", "stop_stage node-b"): late})
    with pytest.raises(OperatorError) as caught:
        all_hosts.stop(cluster, hosts, UPSTREAMS, ignore)
    assert [FIRST, PRIMARY] == stages(hosts.calls, 1, 1)
    assert 2 == len(hosts.calls)
    assert "host two: node-b did not stop in time" == caught.value.notice


def test_a_dry_run_has_the_same_order(cluster: Cluster) -> None:
    found = all_hosts.dry_run(cluster, Hosts(), "down", UPSTREAMS)
    assert ("host two: stop node-b", "host one: stop node-a") == found.does[-2:]
    assert "host one: stop admin" == found.does[0]
