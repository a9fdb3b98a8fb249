"""Operators' commands on a cluster that replaces its primary automatically."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from elected import LEASE, Elected
from patience import wait_until
from three import later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode


@pytest.fixture(scope="module")
def shared(shared_lab: Lab) -> Elected:
    found = Elected(shared_lab)
    found.agents()
    found.zodbrepl("h1", "up")  # starts the members of etcd too
    return found


@pytest.fixture
def three(shared: Elected) -> Iterator[Elected]:
    """Three hosts whose nodes all follow the leader."""
    yield shared
    shared.restore()


def stays(three: Elected, node: str, epoch: int) -> bool:
    """Return True if a node keeps the role for longer than the automation takes to replace it."""

    def has_lost() -> bool:
        key = three.leader("h3")
        return (key["node"], key["epoch"]) != (node, epoch)

    return not wait_until(has_lost, time.monotonic() + 4 * LEASE)


def test_a_switchover_moves_the_leader_key_with_the_role(three: Elected) -> None:
    before = three.see_leader("h1")
    target = "b" if before["node"] != "b" else "c"
    three.zodbrepl("h3", "switchover", target, "--reason", "a calm evening")
    after = three.leader("h1")
    assert (target, before["epoch"] + 1) == (after["node"], after["epoch"])
    assert "a calm evening" in after["why"]
    assert three.primary("h1") == target
    assert stays(three, target, after["epoch"]), three.logs()


def test_the_leader_restarts_and_stays_the_leader(three: Elected) -> None:
    before = three.see_leader("h1")
    three.zodbrepl("h2", "restart", before["node"], "--reason", "new settings")
    after = three.leader("h1")
    assert (before["node"], before["epoch"]) == (after["node"], after["epoch"]), three.logs()


def test_a_host_sees_that_a_command_works_which_runs_on_another_one(three: Elected) -> None:
    node = next(name for name in ("b", "c") if name != three.see_leader("h1")["node"])
    command = three.popen("h1", "restart", node, "--reason", "new settings")
    seen: set[bool] = set()
    while command.poll() is None:
        seen.update(each["at_work"] for each in three.status("h3")["operations"])
    assert 0 == command.returncode
    assert True in seen


def test_while_the_automation_is_paused_only_an_operator_replaces_the_primary(
    three: Elected,
) -> None:
    before = three.see_leader("h1")
    former, host = before["node"], three.host_of(before["node"])
    other = next(each.name for each in three.lab if each.name != host)
    three.zodbrepl(other, "pause", "--reason", "work on the network")
    three.lab[host].run("kill", "-STOP", three.pid_of(former))
    assert stays(three, former, before["epoch"]), three.logs()
    three.lab[host].run("kill", "-KILL", three.pid_of(former))
    three.zodbrepl(other, "node", "fence", former, "--reason", "it hangs")
    three.zodbrepl(other, "failover", "--reason", "by hand")
    after = three.leader(other)
    assert after["node"] != former
    three.zodbrepl(other, "resume-automation")
    assert stays(three, after["node"], after["epoch"]), three.logs()


def test_a_failover_by_hand_is_refused_while_the_leader_renews_its_lease(three: Elected) -> None:
    before = three.see_leader("h1")
    refused = three.zodbrepl("h1", "failover", "--reason", "no", code=int(ExitCode.REFUSED))
    assert f"primary {before['node']} is running" in refused.stderr


def test_a_restart_whose_operator_was_cut_off_is_continued_by_the_automation(
    three: Elected,
) -> None:
    leader = three.see_leader("h1")["node"]
    node = next(name for name in ("b", "c") if name != leader)
    before = three.operation("h1").get("id")
    command = three.popen("h1", "restart", node, "--reason", "new settings")

    def has_begun() -> bool:
        found = three.operation(three.lab[three.host_of(node)].name)
        return before != found.get("id") and any(
            step["progress"] == "begun" for step in found["steps"]
        )

    assert wait_until(has_begun, later())
    command.kill()
    command.wait()
    assert "running" in three.outcomes("h1").values()
    assert wait_until(lambda: "running" not in three.outcomes("h1").values(), later()), three.logs()
    assert {"done"} == {step["progress"] for step in three.operation("h1")["steps"]}


def test_a_switchover_whose_operator_was_cut_off_after_the_promotion_keeps_no_node_out(
    three: Elected,
) -> None:
    before = three.see_leader("h1")
    target = "b" if before["node"] != "b" else "c"
    command = three.popen("h1", "switchover", target, "--reason", "a calm evening")
    assert wait_until(lambda: three.leader("h2")["epoch"] > before["epoch"], later())
    command.kill()
    command.wait()
    assert "running" in three.outcomes("h1").values(), "the command had ended before"
    assert wait_until(three.is_whole, later()), three.logs()
    assert target == three.leader("h1")["node"]
    # The nodes may have followed before the automation closes the operation.
    assert wait_until(lambda: "running" not in three.outcomes("h1").values(), later())
