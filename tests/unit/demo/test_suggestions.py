"""What the demo prints at its end is true of the backend it ran on."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import click
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

import situations

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cli import COMMANDS
from indico_zodbrepl.cli.cluster import example
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.demo.login import Login
from indico_zodbrepl.demo.show import block
from indico_zodbrepl.demo.suggestions import suggestions
from indico_zodbrepl.host.secrets import Credentials
from indico_zodbrepl.monitor.node_status import Mark, NodeStatus, Program
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.operations.recommend import procedures
from indico_zodbrepl.probing.answers import ServerRole

HOME = Path(__file__).parents[3]
FILES = sorted((HOME / "etc").glob("*.conf"))
ADMIN = Credentials("admin", "secret", "admin@indico.invalid", "Ada", "Ministrator")
OPERATOR = Login("operator", "another secret", Path("/secrets/admin-page.json"))
COUNTS = {"categories": 5, "conferences": 200, "contributions": 1000}


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    """An example cluster that has never run."""
    (tmp_path / "etc").mkdir()
    copy = tmp_path / "etc" / request.param.name
    copy.write_text(request.param.read_text())
    monkeypatch.setenv("ZODBREPL_HOME", str(tmp_path))
    return load(copy, tmp_path)


def text_of(cluster: Cluster, operator: Login | None = OPERATOR) -> str:
    found = {node.name: COUNTS for node in backend_of(cluster).readable_nodes(cluster)}
    return block(
        cluster,
        ADMIN,
        Path("/secrets/admin.json"),
        found or {"the cluster": COUNTS},
        operator,
        snapshot=healthy(cluster),
    )


def healthy(cluster: Cluster) -> Snapshot:
    """What a monitor finds right after the demo has loaded its data."""
    alone = len(cluster.nodes) == 1
    nodes = tuple(
        NodeStatus(
            name=node.name,
            address=None if node.storage_port is None else f"{node.host}:{node.storage_port}",
            replication_address=None,
            program=Program(node.program, "RUNNING", 1, "") if node.has_program else None,
            mark=Mark.AS_ASSIGNED,
            problem="",
            assigned_role=node.role,
            assigned_upstream=node.upstream,
            assigned_epoch=None,
            actual_role=ServerRole.STANDALONE if alone else ServerRole(node.role.value),
            upstream=node.upstream,
            connected=True if node.role.follows else None,
            epoch=None,
            pid=1,
            read_only=node.role.follows,
            size=1,
            clients=1,
            last_tid=1,
            last_time=1.0,
            followers=(),
            follower_addresses=(),
            lag_seconds=0.0,
            lag_transactions=0,
            lag_exact=True,
            managed=node.managed,
        )
        for node in cluster.nodes
    )
    primary = next(node.name for node in nodes if node.writable_primary)
    return Snapshot(
        cluster.name, cluster.backend, 1.0, 0.1, State.HEALTHY, "", primary, "", nodes, (), ()
    )


def test_a_cluster_that_is_not_healthy_is_repaired_first() -> None:
    found = situations.snapshot(**situations.PRIMARY_KILLED)
    (recommended, *_rest) = procedures(situations.cluster(), found, HOME)
    (first, (title,)), *others = suggestions(situations.cluster(), found)
    assert recommended.title == title
    assert first.startswith("tail ")
    assert not [command for command, _what in others if "switchover" in command]


def test_where_there_is_one_copy_nothing_is_said_of_replication(cluster: Cluster) -> None:
    (title, *_rest) = text_of(cluster).splitlines()
    assert ("replicat" in title or "distributed" in title) == (len(cluster.nodes) > 1)


def test_every_instance_the_admin_page_and_the_password_are_shown(cluster: Cluster) -> None:
    text = text_of(cluster)
    for url in (cluster.admin.base_url, *(each.base_url for each in cluster.indico)):
        assert url in text
    assert "admin / secret" in text
    assert "as operator / another secret" in text
    assert "as operator" not in (without := text_of(cluster, None))
    assert "admin user list" in without
    assert "200 conferences" in text


def test_what_is_suggested_is_a_command_that_is_for_this_backend(cluster: Cluster) -> None:
    commands = [
        shlex.split(command)
        for command, _what in suggestions(cluster, healthy(cluster))
        if command.startswith("bin/zodbrepl")
    ]
    named = [next(word for word in words[1:] if word in COMMANDS) for words in commands]
    assert named
    assert "status" in named
    assert ("switchover" in named) == can(cluster, "switchover")


def test_only_programs_that_are_there_are_stopped(cluster: Cluster) -> None:
    stopped = [
        command
        for command, _what in suggestions(cluster, healthy(cluster))
        if "supervisorctl" in command
    ]
    programs = [node.program for node in cluster.nodes if node.has_program]
    assert bool(stopped) == bool(programs)
    for command in stopped:
        assert shlex.split(command)[-1] in programs


def test_pages_that_are_suggested_are_there(cluster: Cluster) -> None:
    for page in re.findall(r"docs/\S+\.md", text_of(cluster)):
        assert (HOME / page).is_file()


def test_an_example_is_found_by_its_name_and_zrs_is_the_file_without_one() -> None:
    installation = Installation(HOME)
    assert HOME / "etc" / "cluster.conf" == example(installation, "zrs")
    assert HOME / "etc" / "cluster-zeo.conf" == example(installation, "zeo")
    with pytest.raises(click.UsageError, match="known: filestorage"):
        example(installation, "postgres")
    with pytest.raises(click.UsageError, match="no example 'hosts'"):
        example(installation, "hosts")
