"""Hosts that do not answer."""

from __future__ import annotations

import threading
import time

import pytest

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.remote import away
from indico_zodbrepl.host.remote.away import AwayHosts
from indico_zodbrepl.host.remote.router import refuse_minority
from indico_zodbrepl.probing.waiting import wait_until

ADDRESS = "10.77.0.12:8300"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "PROBE_SECONDS", 0.01)


def later() -> float:
    return time.monotonic() + 20.0


def test_a_host_is_away_until_it_answers() -> None:
    hosts, back = AwayHosts(), threading.Event()
    hosts.add(ADDRESS, "no answer in time", lambda: "" if back.is_set() else "no answer in time")
    assert hosts.why(ADDRESS) == "no answer in time"
    assert hosts.all_of() == {ADDRESS: "no answer in time"}
    assert not hosts.why("10.77.0.13:8300")
    back.set()
    assert wait_until(lambda: not hosts.all_of(), later())


def test_the_latest_reason_counts_and_one_thread_asks() -> None:
    hosts, asking = AwayHosts(), []

    def look() -> str:
        asking.append(threading.get_ident())
        return "connection refused"

    hosts.add(ADDRESS, "no answer in time", look)
    hosts.add(ADDRESS, "connection refused", look)
    assert hosts.why(ADDRESS) == "connection refused"
    assert wait_until(lambda: len(asking) >= 3, later())
    assert len(set(asking)) == 1
    hosts.forget()


def test_the_reason_is_the_one_of_the_last_attempt() -> None:
    hosts = AwayHosts()
    hosts.add(ADDRESS, "connection refused", lambda: "no answer in time")
    assert wait_until(lambda: hosts.why(ADDRESS) == "no answer in time", later())
    hosts.forget()


def test_a_host_that_nobody_asks_for_is_not_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(away, "FORGET_SECONDS", 0.05)
    hosts = AwayHosts()
    hosts.add(ADDRESS, "no answer in time", lambda: "no answer in time")
    assert wait_until(lambda: not hosts.all_of(), later())


def test_a_host_that_is_forgotten_meanwhile_may_be_away_again() -> None:
    hosts = AwayHosts()
    hosts.add(ADDRESS, "no answer in time", lambda: "no answer in time")
    hosts.forget()
    hosts.add(ADDRESS, "connection refused", lambda: "connection refused")
    assert hosts.why(ADDRESS) == "connection refused"
    hosts.forget()


def test_without_a_majority_of_hosts_no_operation_begins() -> None:
    lost = HostAwayError("host two does not answer", "no answer in time")
    refuse_minority({"one": "", "two": lost, "three": ""})
    with pytest.raises(OperatorError, match="only 1 of 3 hosts answer, and 2 are a majority") as no:
        refuse_minority({"one": "", "two": lost, "three": lost})
    assert no.value.exit_code is ExitCode.REFUSED
    assert "no answer in time" in no.value.detail
