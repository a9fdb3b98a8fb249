"""The commands that an upgrade of this tool still needs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl import PROTOCOL, __version__
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import releases
from indico_zodbrepl.host.releases import Running, mixed, mixed_refusal
from indico_zodbrepl.operations import upgrade
from indico_zodbrepl.operations.upgrade import Upgrade
from indico_zodbrepl.probing.answers import Replication, ServerRole

HOME = Path(__file__).parents[3]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(HOME / "etc" / "cluster.conf", tmp_path)


def server(name: str, role: ServerRole, release: str, protocol: int = PROTOCOL) -> Running:
    read_only = role is not ServerRole.PRIMARY
    return Running(
        name,
        release,
        Replication(
            "demo", name, role, 1, None, None, (), 1, 1, read_only,
            release=release, protocol=protocol,
        ),
    )  # fmt: skip


def found(
    cluster: Cluster, a: str, b: str, rest: str, *, last: str, protocol: int = PROTOCOL
) -> Upgrade:
    running = {
        "node-a": server("a", ServerRole.PRIMARY, a, protocol),
        "node-b": server("b", ServerRole.SECONDARY, b, protocol),
        **{each.program: Running(each.name, rest) for each in cluster.indico},
        "admin": Running("admin", rest),
    }
    return Upgrade(cluster, last, running, (), (), ())


def words(cluster: Cluster, of: Upgrade) -> list[str]:
    return [
        line.removeprefix("bin/zodbrepl ") for line in upgrade.commands(of, Commands(cluster, HOME))
    ]


def test_followers_come_first_then_a_switchover_the_old_primary_indico_and_the_page(
    cluster: Cluster,
) -> None:
    typed = words(cluster, found(cluster, "0.1.0", "0.1.0", "0.1.0", last="0.1.0"))
    instances = [f"restart {each.name}" for each in cluster.indico]
    assert typed[:3] == ["restart b", "switchover", "restart a"]
    assert typed[3 : 3 + len(instances)] == instances
    assert typed[-2].endswith("restart admin")
    assert typed[-1] == "up"


def test_what_already_runs_this_release_is_left_alone(cluster: Cluster) -> None:
    now = __version__
    assert words(cluster, found(cluster, now, "0.1.0", now, last=now)) == ["restart b", "up"]
    assert words(cluster, found(cluster, now, now, now, last=now)) == []


def test_the_last_up_of_another_release_is_repeated(cluster: Cluster) -> None:
    now = __version__
    assert words(cluster, found(cluster, now, now, now, last="0.1.0")) == ["up"]


def test_servers_of_another_protocol_are_restarted_without_a_switchover(cluster: Cluster) -> None:
    of = found(cluster, "9.0.0", "9.0.0", __version__, last=__version__, protocol=PROTOCOL + 1)
    assert words(cluster, of) == ["restart b", "restart a", "up"]
    assert any("no role can be changed" in line for line in upgrade.in_words(of))
    error = mixed_refusal(cluster, "switchover", mixed(of.running))
    assert error.exit_code is ExitCode.REFUSED
    assert f"a runs release 9.0.0 (protocol {PROTOCOL + 1})" in error.detail
    assert "upgrade --check" in error.hint


@pytest.fixture
def automatic(tmp_path: Path) -> Cluster:
    """Host h1 of three, with node a; the admin page is elsewhere."""
    loaded = load(HOME / "etc" / "cluster-hosts.conf", tmp_path)
    return dataclasses.replace(loaded, automatic=True, here="h1")


def on_host(cluster: Cluster, role: ServerRole, node: str, automation: str) -> Upgrade:
    running = {
        "node-a": server("a", role, node),
        "automation-h1": Running("automation-h1", automation),
    }
    return Upgrade(cluster, __version__, running, (), (), ())


def test_the_automation_of_a_host_restarts_when_no_node_there_leads(automatic: Cluster) -> None:
    now = __version__

    def typed(role: ServerRole, node: str, automation: str) -> list[str]:
        return [
            each.split()[-1]
            for each in words(automatic, on_host(automatic, role, node, automation))
        ]

    assert typed(ServerRole.SECONDARY, now, "0.1.0") == ["automation-h1", "--this-host"]
    assert typed(ServerRole.PRIMARY, now, "0.1.0") == [
        "switchover",
        "automation-h1",
        "--this-host",
    ]
    assert typed(ServerRole.PRIMARY, "0.1.0", "0.1.0") == [
        "switchover",
        "a",
        "automation-h1",
        "--this-host",
    ]
    assert typed(ServerRole.PRIMARY, now, now) == []


def test_a_host_names_only_its_own_programs(automatic: Cluster) -> None:
    assert set(releases.running(automatic)) <= set(automatic.program_names())
    assert releases.control_programs(automatic) == ["automation-h1"]


def test_a_program_that_the_release_adds_is_named_and_starts_with_the_last_step(
    cluster: Cluster,
) -> None:
    now = __version__
    of = dataclasses.replace(found(cluster, now, now, now, last=now), added=("scheduler",))
    assert words(cluster, of) == ["up"]
    (line,) = (each for each in upgrade.in_words(of) if "scheduler" in each)
    assert "`up` starts these: scheduler; until then `status` says DEGRADED" in line
