"""A command about a node of another machine never touches a server of this one."""

from __future__ import annotations

import commands
import pytest
from clusters import ClusterUnderTest

# RFC 5737: of documentation, so of no machine; private ones would be somebody's.
ELSEWHERE = "192.0.2.7"


@pytest.fixture
def seen_from_elsewhere(shared: ClusterUnderTest) -> ClusterUnderTest:
    """The running pair, and a cluster file by which both nodes are on another machine."""
    text = shared.path.read_text()
    other = shared.folder / "elsewhere.conf"
    other.write_text(
        text.replace("host 127.0.0.1", f"host {ELSEWHERE}").replace(
            "name test", "name test\nallow-public-addresses yes"
        )
    )
    return shared


@pytest.mark.parametrize(
    "command",
    [
        ("node", "fence", "a"),
        ("node", "fence", "a", "--dry-run"),
        ("node", "stop", "a"),
        ("node", "start", "a"),
        ("node", "pause-writes", "a"),
        ("node", "assign", "a", "--role", "primary", "--epoch", "7"),
        ("node", "promote", "b", "--epoch", "7"),
        ("node", "follow", "b", "--upstream", "a", "--epoch", "7"),
    ],
    ids=" ".join,
)
def test_a_verb_refuses_a_node_of_another_machine_and_says_where_to_type_it(
    seen_from_elsewhere: ClusterUnderTest, command: tuple[str, ...]
) -> None:
    here = seen_from_elsewhere
    before = [here.pid_of(f"node-{name}") for name in "ab"]
    done = commands.run(
        ["-c", str(here.folder / "elsewhere.conf"), *command], here.home, seconds=100
    )
    assert 8 == done.returncode, done.stdout + done.stderr
    assert "is not on this machine" in done.stderr
    assert f"HINT: type this on {ELSEWHERE}" in done.stderr
    assert before == [here.pid_of(f"node-{name}") for name in "ab"]
