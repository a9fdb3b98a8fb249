"""Operations across hosts: one at a time, and each is continued from any host."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.errors import ExitCode


@pytest.fixture(scope="module")
def shared(shared_lab: Lab) -> Three:
    """Three hosts whose nodes run."""
    found = Three(shared_lab)
    found.agents()
    found.zodbrepl("h1", "up")
    return found


@pytest.fixture
def three(shared: Three) -> Iterator[Three]:
    """The three hosts, which are repaired afterwards."""
    yield shared
    shared.repair()


def steps(three: Three, host: str) -> list[str]:
    """Return the progress of each step of the newest operation, as a host knows it."""
    return [step["progress"] for step in three.operation(host).get("steps", [])]


def begun(three: Three, host: str, operation: str, *arguments: str) -> Program:
    """Start an operation on a host; return when it takes a step and every host knows that."""
    before = three.operation(host).get("id")
    command = three.popen(host, operation, *arguments, "--reason", "test")

    def knows(name: str) -> bool:
        return before != three.operation(name).get("id") and "begun" in steps(three, name)

    for each in three.lab:
        assert wait_until(partial(knows, each.name), later()), each.name
    return command


def test_an_operation_is_known_on_every_host(three: Three) -> None:
    three.zodbrepl("h2", "restart", "a", "--reason", "known")
    for host in three.lab:
        assert "restart a" in three.zodbrepl(host.name, "journal").stdout
        assert {"done"} == set(steps(three, host.name))


def test_an_operation_is_resumed_on_another_host_after_its_command_was_killed(
    three: Three,
) -> None:
    command = begun(three, "h1", "restart", "b")
    command.kill()
    command.wait()
    refused = three.zodbrepl("h3", "restart", "c", "--reason", "no", code=int(ExitCode.REFUSED))
    assert "restart of b was interrupted" in refused.stderr
    assert " on host h1 no longer works on it" in refused.stderr
    three.zodbrepl("h3", "resume")
    for host in three.lab:
        assert {"done"} == set(steps(three, host.name))
        assert "done" in three.outcomes(host.name).values()


def test_an_operation_is_resumed_after_its_host_lost_power(three: Three) -> None:
    begun(three, "h3", "restart", "b")
    three.lab["h3"].kill()
    three.zodbrepl("h2", "resume")
    assert {"done"} == set(steps(three, "h2"))
    three.lab["h3"].start()
    three.agents(["h3"])
    assert wait_until(lambda: {"done"} == set(steps(three, "h3")), later()), "it catches up"
    assert wait_until(lambda: three.outcomes("h3") == three.outcomes("h2"), later())


def test_the_second_of_two_operators_is_told_of_the_first(three: Three) -> None:
    first = begun(three, "h1", "restart", "b")
    refused = three.zodbrepl("h2", "restart", "c", "--reason", "no", code=int(ExitCode.REFUSED))
    assert "another operation is running (process " in refused.stderr
    assert " on host h1)" in refused.stderr
    assert "restart of b" in refused.stderr
    assert 0 == first.wait(60)
    three.zodbrepl("h2", "restart", "c", "--reason", "now it may")


def test_of_two_operators_at_once_one_succeeds(three: Three) -> None:
    commands = {
        host: three.popen(host, "restart", node, "--reason", "test")
        for host, node in (("h1", "b"), ("h2", "c"))
    }
    codes = sorted(command.wait(120) for command in commands.values())
    assert [0, int(ExitCode.REFUSED)] == codes
    assert "running" not in three.outcomes("h3").values()


def test_neither_side_of_a_cut_network_works_without_a_majority(three: Three) -> None:
    three.lab.network.isolate("h3")
    refused = three.zodbrepl("h3", "node", "follow", "c", "--upstream", "b", "--epoch", "2", code=8)
    assert "too few hosts answer, so nothing was changed" in refused.stderr
    three.zodbrepl("h2", "restart", "b", "--reason", "a majority")
    three.lab.network.heal()
    assert wait_until(lambda: three.outcomes("h3") == three.outcomes("h1"), later())


def test_a_command_that_is_cut_off_stops_before_its_next_step(three: Three) -> None:
    command = begun(three, "h1", "restart", "a")
    three.lab.network.isolate("h1")
    assert command.wait(120) != 0
    three.zodbrepl("h2", "resume", code=None)


def test_an_agent_that_dies_in_a_step_fails_it_and_the_operation_is_resumed(three: Three) -> None:
    command = begun(three, "h1", "restart", "b")
    three.kill_agent("h2")
    assert command.wait(120) != 0
    three.agents(["h2"])
    three.zodbrepl("h2", "resume", code=None)
    three.zodbrepl("h2", "status")
