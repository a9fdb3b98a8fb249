"""No operation begins that could not write after its point of no return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planning import COMMANDS, cluster_of, situation, steps_of

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import disks, local, state
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.server_control import NoServerError
from indico_zodbrepl.operations import executor, planning, preflight
from indico_zodbrepl.operations.model import Context, Plan, Refusal, Verdict
from indico_zodbrepl.operations.planning import Request
from indico_zodbrepl.operations.roles import Demote
from indico_zodbrepl.operations.switchover import plan_switchover

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
STAR = cluster_of(c=("a", Role.SECONDARY))
NO_SPACE = "No space left on device"
FULL = Disk(0, 20 << 30, 1)


def switchover(target: str | None = "b", **changes: Any) -> Plan | Refusal:
    return plan_switchover(STAR, situation(STAR, **changes), target, "", COMMANDS(STAR))


def told(found: Plan | Refusal, verdict: Verdict) -> list[str]:
    return [f"{each.subject}: {each.text}" for each in found.findings if each.verdict is verdict]


@pytest.mark.parametrize("node", ["a", "b", "c"])
def test_a_switchover_is_refused_if_any_node_can_not_write_its_state(node: str) -> None:
    found = switchover(unwritable={node: NO_SPACE})
    assert isinstance(found, Refusal)
    assert [f"{node}: its state can't be written"] == told(found, Verdict.AGAINST)
    assert found.hint.endswith(f"df -h var/node/{node}")


def test_a_switchover_away_from_a_full_disk_does_not_wait_for_that_node_to_follow() -> None:
    full: dict[str, Any] = {"free": {"a": 0}, "disks": {"a": FULL}}
    found = switchover(**full)
    assert isinstance(found, Plan)
    assert [
        "a: its disk is full: it gets no new transaction until there is room",
    ] == [each for each in told(found, Verdict.WARNING) if "disk" in each][:1]
    assert "turn a" in steps_of(found)
    assert "see-following a" not in steps_of(found)
    assert "see-following c" in steps_of(found)


def test_without_a_target_a_node_with_room_is_taken() -> None:
    found = switchover(None, free={"b": 0}, disks={"b": FULL})
    assert isinstance(found, Plan)
    assert "c" == found.target


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text(EXAMPLE.read_text())
    made = load(path, tmp_path)
    for node in made.nodes:
        node.data_directory.mkdir(parents=True)
    return made


def full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file be written on the disk of a folder."""
    monkeypatch.setattr(
        disks,
        "why_unwritable",
        lambda asked: f"{asked}: {NO_SPACE}" if asked == folder else "",
    )


@pytest.mark.parametrize("operation", ["failover", "switchover", "rejoin", "clone", "restart"])
def test_nothing_is_planned_while_the_control_host_can_not_write(
    cluster: Cluster, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(cluster.var_directory, monkeypatch)
    with pytest.raises(OperatorError, match="control host can't write") as refused:
        planning.prepare(cluster, Installation(Path()), Request(operation, "b"))
    assert ExitCode.REFUSED is refused.value.exit_code
    assert "df -h" in refused.value.hint


def test_nothing_is_executed_while_the_control_host_can_not_write(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(cluster.var_directory, monkeypatch)
    plan = Plan("restore", "a", "", "", 0, (), None, ())
    with pytest.raises(OperatorError, match="control host can't write"):
        executor.execute(cluster, Installation(Path()), plan)


@pytest.mark.parametrize("operation", ["rejoin", "clone", "restart"])
def test_a_node_that_can_not_write_is_not_worked_on(
    cluster: Cluster, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(cluster.node("b").data_directory, monkeypatch)
    with pytest.raises(OperatorError, match="node b can't write its state"):
        planning.prepare(cluster, Installation(Path()), Request(operation, "b"))


def test_a_node_whose_disk_is_full_gets_no_data(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "disk_of", lambda _folder: FULL)
    with pytest.raises(OperatorError, match="its disk is full"):
        preflight.refuse_node(cluster, "b", needs_room=True)
    preflight.refuse_node(cluster, "b", needs_room=False)


def test_a_test_file_is_written_for_each_node(cluster: Cluster) -> None:
    host = local.LocalHost(cluster)
    assert {} == preflight.unwritable(host, ["a", "b"])
    assert [] == list(cluster.node("a").data_directory.iterdir())


def test_a_demoted_primary_lets_its_clients_go_though_its_state_can_not_be_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    redirected = []

    def no_room(*_arguments: object) -> None:
        raise OperatorError("the state file of node a can't be written", NO_SPACE)

    monkeypatch.setattr(state, "write", no_room)
    monkeypatch.setattr(
        local.LocalHost, "redirect", lambda _host, name, _wanted: redirected.append(name)
    )
    wanted = NodeState(cluster.name, "a", Role.SECONDARY, "b", 2)
    step = Demote.of(COMMANDS(cluster), wanted)
    plan = Plan("switchover", "b", "a", "", 2, (step,), None, ())
    context = Context(cluster, Installation(Path()), plan, {}, lambda _text: None, 0.0)
    with pytest.raises(OperatorError, match="can't be written") as failed:
        step.do(context)
    assert (["a"], NO_SPACE) == (redirected, failed.value.detail)
    assert not isinstance(failed.value, NoServerError)
    assert Role.PRIMARY is state.current(cluster, cluster.node("a")).role
