"""A cluster of several hosts in the status: what is said of hosts, and of what is on them."""

from __future__ import annotations

import dataclasses
import socket
from typing import Any

import pytest
from situations import FAILED_OVER, REFUSED, SILENT, findings, program, state
from spread import AWAY, H1_LOST, WELL, seen, spread

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.sights import Sighting
from indico_zodbrepl.monitor.findings import HostReport
from indico_zodbrepl.monitor.hosts import look_again
from indico_zodbrepl.monitor.snapshot import EpochWord, Snapshot, State
from indico_zodbrepl.operations.evidence import Process, Sight, count_down, is_gone, reports_of
from indico_zodbrepl.probing.answers import Level
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.wire import FailureKind


def test_hosts_that_answer_raise_no_alert() -> None:
    found = seen()
    assert State.HEALTHY is found.state
    assert "h2" == found.here
    assert () == found.away
    assert ["h1", "h2"] == [node.host for node in found.nodes]


def test_a_lost_host_is_reported_once_with_what_was_on_it() -> None:
    found = seen(**H1_LOST)
    assert ("h1",) == found.away
    (alert,) = [each for each in found.warnings if each.subject == "h1"]
    assert "host h1 does not answer" == alert.text
    assert "On it: node a and Indico instance one." in alert.detail
    texts = [each.text for each in found.warnings]
    assert not [text for text in texts if "state file" in text or "epoch record" in text]
    for each in found.warnings:
        if each.subject in ("a", "one"):
            assert each.hint.startswith("bring host h1 back"), each


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_promoted_primary_is_called_so_while_the_agent_of_its_host_is_away(is_lost: bool) -> None:
    away: dict[str, Any] = {
        **FAILED_OVER,
        "servers": {**FAILED_OVER["servers"], **({"b": SILENT} if is_lost else {})},
        "states": {"a": state("a", role=Role.SECONDARY, upstream="b", epoch=2), "b": AWAY},
        "hosts": {"h2": AWAY},
        "records": tuple(EpochWord(f"host {host}", 2, "b", "") for host in ("h1", "h3")),
    }
    found = seen(**away)
    (b,) = [node for node in found.nodes if node.name == "b"]
    assert Role.PRIMARY is b.assigned_role
    assert not [each.text for each in found.warnings if "assigned is" in each.text]
    assert is_lost == ("primary b does not answer" in [each.text for each in found.warnings])


def test_without_a_majority_of_hosts_the_status_is_critical() -> None:
    found = seen(**{**H1_LOST, "hosts": {"h1": AWAY, "h3": AWAY}})
    (alert,) = [each for each in found.warnings if "majority" in each.text]
    assert Level.CRITICAL is alert.level
    assert "only 1 of 3 hosts answer, and 2 are a majority" == alert.text


def test_another_cluster_file_release_or_clock_of_a_host_is_one_line_each() -> None:
    found = seen(hosts={"h3": HostReport("0.1.0", False, -61.2)})
    assert [
        "the cluster file of host h3 is another one",
        "the clock of host h3 is 61 s behind this host's",
        f"host h3 runs release 0.1.0, this one {__version__}",
    ] == [each.text for each in found.warnings]


def test_a_certificate_that_expires_soon_is_reported_in_time() -> None:
    day = 86400.0
    now = seen().taken_at
    found = seen(
        hosts={
            "h2": HostReport(__version__, True, 0.0, now + 31 * day),
            "h3": HostReport(__version__, True, 0.0, now + 12 * day),
        }
    )
    (alert,) = found.warnings
    assert alert.text == "the certificate of host h3 expires in 12 days"
    assert "hosts rotate-certificates" in alert.hint


def test_the_supervisord_of_another_host_is_named_with_its_host() -> None:
    found = seen(supervisors={"h1": "supervisord is not running"})
    assert ["supervisord of host h1 does not answer"] == [each.text for each in found.warnings]


def test_a_stopped_scheduler_is_replaced_by_that_of_another_host() -> None:
    programs = {
        "scheduler-one": program("scheduler-one", "STOPPED"),
        "scheduler-two": program("scheduler-two"),
    }
    found = seen(schedulers=True, programs=programs)
    (alert,) = found.warnings
    assert "Indico's scheduler beside one is stopped" == alert.text
    assert "done by the one beside two" in alert.detail
    programs["scheduler-two"] = program("scheduler-two", "STOPPED")
    both = seen(schedulers=True, programs=programs)
    assert {"Indico's scheduler is stopped"} == {each.text for each in both.warnings}


def test_disks_of_different_hosts_are_different_ones_though_their_numbers_are_the_same() -> None:
    disk = Disk(free=40 << 30, size=80 << 30, free_files=1, files=2, device=7)
    found = seen(disks={"a": disk, "b": disk}, control_disk=disk)
    assert [["a"], ["b", "var"]] == [each.names for each in found.file_systems]


def reported(found: Snapshot, sights: dict[str, Any], **changes: Any) -> Any:
    raw = findings(**{**H1_LOST, **changes})
    return reports_of(raw, found, "a", Process.UNKNOWN, None, sights=sights)


def test_the_probes_of_two_hosts_are_two_observers_of_a_lost_primary() -> None:
    said = reported(seen(**H1_LOST), {"h3": Sighting(None, "no answer in time")})
    assert "host h1 does not answer" in {each.text for each in said}
    assert is_gone(said)


def test_the_silence_of_a_primary_whose_host_is_up_without_its_agent_proves_nothing() -> None:
    """It may be slow or frozen, and nothing could tell it of the epoch of another primary."""
    stopped = {"hosts": {"h1": Failure(FailureKind.REFUSED, "Connection refused")}}
    found = seen(**{**H1_LOST, **stopped})
    silent = {"h3": Sighting(None, "no answer in time", silent=True)}
    assert not is_gone(reported(found, silent, **stopped))
    *others, two = found.indico
    left = dataclasses.replace(found, indico=(*others, dataclasses.replace(two, host="h3")))
    assert "h2" == left.node("b").host
    assert not is_gone(reported(left, silent, **stopped)), "a follower and an instance have left it"
    closed = {"h3": Sighting(None, "closed the connection")}
    refused = {"servers": {**H1_LOST["servers"], "a": REFUSED}}
    assert is_gone(reported(found, closed, **stopped, **refused))


def test_a_host_whose_refusal_came_too_late_to_be_seen_is_asked_once_more() -> None:
    """A busy host notices late that another one refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = {"h1": closed.getsockname()[1], "h2": 1, "h3": listening.getsockname()[1]}
        hosts = tuple(ClusterHost(name, "127.0.0.1", port) for name, port in ports.items())
        raw = findings(hosts={"h1": AWAY, "h2": WELL, "h3": AWAY})
        again = look_again(dataclasses.replace(spread(), hosts=hosts), raw)
    refused = again.hosts["h1"]
    assert isinstance(refused, Failure)
    assert FailureKind.REFUSED is refused.kind
    assert (WELL, AWAY) == (again.hosts["h2"], again.hosts["h3"])


def test_all_observers_on_one_host_count_once() -> None:
    """The probe, the instance and the follower on h2 may have lost their network together."""
    said = reported(seen(**H1_LOST), {})
    assert 1 == count_down(said)
    assert not is_gone(said)


def test_a_host_that_still_sees_the_primary_forbids_a_failover() -> None:
    said = reported(seen(**H1_LOST), {"h3": Sighting("primary", "")})
    assert Sight.SERVING in {each.sight for each in said}
    assert not is_gone(said)
