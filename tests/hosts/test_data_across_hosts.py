"""Commands about data, each typed on another host than the one of the node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from counted import Counted, held
from three import Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.probing.waiting import wait_until


@pytest.fixture(scope="module")
def shared(shared_lab: Lab) -> Three:
    found = Three(shared_lab, "tls")
    found.agents()
    found.zodbrepl("h1", "up")
    return found


@pytest.fixture
def three(shared: Three) -> Iterator[Three]:
    """Three hosts with their nodes; a is the primary, on h1."""
    yield shared
    shared.repair()


def is_healthy(three: Three) -> bool:
    return bool(three.zodbrepl("h2", "status", code=None).returncode == 0)


def data_of(three: Three, node: str) -> bytes:
    return (three.lab[three.host_of(node)].folder / node / "Data.fs").read_bytes()


def test_down_lets_every_node_have_what_was_acknowledged(three: Three) -> None:
    with Counted(three, "h3") as writer:
        foreseen = three.zodbrepl("h2", "down", "--dry-run").stdout
        order = [foreseen.index(f"stop {name}") for name in ("admin", "node-a", "node-b", "node-c")]
        assert order == sorted(order), foreseen
        assert foreseen.index("stop node-c") < foreseen.index("stop tunnel-h1"), foreseen
        three.zodbrepl("h2", "down")
        acknowledged = set(writer.acknowledged)
    assert {data_of(three, "a")} == {data_of(three, node) for node in ("b", "c")}
    assert acknowledged <= held(three, "b")
    three.zodbrepl("h3", "up")
    assert wait_until(lambda: is_healthy(three), later())


def test_down_names_a_host_that_does_not_answer_and_stops_the_rest(three: Three) -> None:
    three.lab.network.isolate("h3")
    failed = three.zodbrepl("h2", "down", code=int(ExitCode.TIMED_OUT))
    assert "host h3 does not answer: its programs were not stopped" in failed.stderr
    assert "on h3, unless it is off: " in failed.stderr
    three.lab.network.heal()
    assert {data_of(three, "a")} == {data_of(three, "b")}
    programs = {each["name"]: each["program"] for each in three.status("h3")["nodes"]}
    assert (None, None) == (programs["a"], programs["b"]), "no supervisord runs there"
    assert "RUNNING" == programs["c"]["state"]
