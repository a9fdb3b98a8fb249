"""Each command of one node can be tried without being done, on real servers."""

from __future__ import annotations

import os
from pathlib import Path

from clusters import ClusterUnderTest
from operations import succeed, what_a_plan_could_change

from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.layout import lineage_file
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host.server_control import NoServerError, ServerControl

NOTHING = "There is nothing to do."
UNCHANGED = "This was a dry run: nothing was changed."


def everything(under_test: ClusterUnderTest) -> tuple[dict[Path, bytes], list[int], list[str]]:
    """Files, processes and what the servers say of themselves."""
    cluster = under_test.cluster
    nodes = cluster.nodes
    files = what_a_plan_could_change(under_test) | {
        path: path.read_bytes() for path in map(lineage_file, nodes) if path.exists()
    }
    return files, sorted(under_test.processes()), [said_by(cluster, node) for node in nodes]


def said_by(cluster: Cluster, node: Node) -> str:
    try:
        status = ServerControl(cluster, node).status()
    except NoServerError as error:
        return error.notice
    return str((status.role, status.epoch, status.known_epoch, status.held, status.upstream))


def tried(under_test: ClusterUnderTest, *arguments: str) -> str:
    """What a dry run prints, without its line breaks."""
    return " ".join(succeed(under_test, "node", *arguments, "--dry-run").split())


def test_a_dry_run_of_any_step_tells_what_it_would_do_and_changes_nothing(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    before = everything(cluster)
    does = {
        ("stop", "b"): "stop node-b",
        ("fence", "a"): f"send SIGKILL to process {cluster.pid_of('node-a')}",
        (
            "assign",
            "b",
            "--role",
            "secondary",
            "--upstream",
            "a",
            "--epoch",
            "2",
        ): "state.json: secondary in epoch 2, following a",
        ("hold", "a"): "begin no commit for 20 s",
        ("release", "a"): NOTHING,
        (
            "follow",
            "b",
            "--upstream",
            "a",
            "--epoch",
            "1",
        ): "change its server in place",
        ("start", "b"): NOTHING,
    }
    for arguments, expected in does.items():
        told = tried(cluster, *arguments)
        assert (True, True) == (expected in told, told.endswith(UNCHANGED)), told
    refused = cluster.cli("node", "promote", "b", "--epoch", "2", "--dry-run")
    assert (ExitCode.REFUSED, True) == (refused.returncode, "accepts writes" in refused.stderr)
    refused = cluster.cli("node", "assign", "b", "--role", "primary", "--epoch", "1", "--dry-run")
    assert (ExitCode.REFUSED, True) == (refused.returncode, "is running as" in refused.stderr)
    refused = cluster.cli("node", "hold", "b", "--dry-run")
    assert (ExitCode.REFUSED, True) == (refused.returncode, "runs as secondary" in refused.stderr)
    assert 2 == cluster.cli("node", "restart-client", "one", "--dry-run").returncode
    assert before == everything(cluster)


def test_a_dry_run_of_a_start_asks_as_the_start_does(cluster: ClusterUnderTest) -> None:
    cluster.start()
    for name in "ab":
        succeed(cluster, "node", "fence", name)
    before = everything(cluster)
    told = tried(cluster, "start", "a")
    assert "sources that confirm it: the record of the control host" in told
    assert "its history is that of node a" in tried(cluster, "start", "b")
    assert "start node-b" in tried(cluster, "promote", "b", "--epoch", "2")
    told = tried(cluster, "start", "b", "--force")
    assert "raise the records of the control host to epoch 2, primary b" in told
    assert before == everything(cluster)
    # Neither the record nor the other node can be asked.
    for path in (cluster.folder / "var" / "epoch.json", cluster.cluster.node("b").data_directory):
        os.rename(path, path.with_name("away " + path.name))
    refused = cluster.cli("node", "start", "a", "--dry-run")
    assert (ExitCode.REFUSED, True) == (refused.returncode, "no source confirms" in refused.stderr)
