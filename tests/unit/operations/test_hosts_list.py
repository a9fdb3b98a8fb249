"""What `hosts list` says of each host, and its exit code."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.remote.identities import Seen
from indico_zodbrepl.host.remote.messages import PROTOCOL, Identity
from indico_zodbrepl.operations.hosts_list import DAY, Line, exit_code, listing

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
NOW = 1_000_000_000.0
NAMES = ("one", "two", "three")
AWAY = HostAwayError("host three does not answer", "no answer in time", "", ExitCode.TIMED_OUT)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    hosts = tuple(ClusterHost(name, f"10.77.0.{11 + i}", 8300) for i, name in enumerate(NAMES))
    return dataclasses.replace(load(EXAMPLE, tmp_path), hosts=hosts, here="one")


def identity(name: str) -> Identity:
    until = NOW + 100 * DAY
    return Identity("demo", name, __version__, PROTOCOL, "present", NOW, certificate_until=until)


def lines_of(
    cluster: Cluster, *found: Seen | OperatorError, earlier: tuple[str, ...] = ()
) -> list[Line]:
    seen: dict[str, Seen | OperatorError] = {n: Seen(identity(n), 0.0, 0.01) for n in NAMES}
    seen |= dict(zip(reversed(NAMES), found, strict=False))
    return listing(cluster, seen, "present", earlier, NOW)


def changed(ahead: float = 0.0, uncertain: float = 0.01, **fields: object) -> Seen:
    values = identity("three")
    for name, value in fields.items():
        setattr(values, name, value)
    return Seen(values, ahead, uncertain)


def test_hosts_that_agree_are_fine(cluster: Cluster) -> None:
    lines = lines_of(cluster)
    assert [()] * 3 == [line.issues for line in lines]
    assert [True, False, False] == [line.here for line in lines]
    assert {100.0} == {line.certificate_days for line in lines}
    assert 0 == exit_code(lines)


@pytest.mark.parametrize(
    ("found", "issue"),
    [
        (AWAY, "does not answer: no answer in time"),
        (changed(config="x"), "its cluster file is another one: bin/zodbrepl hosts push --dry-run"),
        (changed(config="old"), "its cluster file is older: bin/zodbrepl hosts push"),
        (
            changed(config="x", earlier=("present",)),
            "its cluster file is newer; on it: bin/zodbrepl hosts push",
        ),
        (changed(release="0.9"), f"it runs release 0.9, this host {__version__}"),
        (
            changed(release="0.9", protocol=PROTOCOL + 1),
            (
                f"it runs release 0.9, which can't work with {__version__} of this host: "
                "docs/how-to/upgrade.md"
            ),
        ),
        (changed(ahead=60.0), "its clock is 60 s ahead of this host's: use NTP"),
        (changed(ahead=-60.0), "its clock is 60 s behind this host's: use NTP"),
        (
            changed(certificate_until=NOW + 10 * DAY),
            "its certificate expires in 10 days: bin/zodbrepl hosts rotate-certificates",
        ),
        (changed(problem="cluster.conf is invalid:\nline 1"), "cluster.conf is invalid: line 1"),
        (changed(cluster="four"), "host three of cluster four answers at its address"),
    ],
)
def test_each_difference_has_one_line(
    cluster: Cluster, found: Seen | OperatorError, issue: str
) -> None:
    lines = lines_of(cluster, found, earlier=("old",))
    assert [(), (), (issue,)] == [line.issues for line in lines]
    assert 1 == exit_code(lines)


def test_a_slow_answer_proves_no_difference_of_clocks(cluster: Cluster) -> None:
    assert 0 == exit_code(lines_of(cluster, changed(ahead=5.5, uncertain=0.7)))


def test_without_a_majority_the_exit_code_is_that_of_a_critical_state(cluster: Cluster) -> None:
    assert 2 == exit_code(lines_of(cluster, AWAY, AWAY))
