"""What crosses the network when a former primary joins again."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest
from counted import PYTHON27, Counted, exported, held
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode

GROW = Path(__file__).parents[1] / "scenarios/python27/grow.py"
MEGABYTES = 200
REASON = ("--reason", "its host is cut off")


@pytest.fixture(scope="module")
def three(shared_lab: Lab) -> Three:
    """Three hosts; each node has the same large database."""
    found = Three(shared_lab, "tls")
    data = data_file(found, "a")
    data.parent.mkdir(mode=0o700)
    subprocess.run([PYTHON27, GROW, "size", data, str(MEGABYTES)], check=True, timeout=300)
    found.agents()
    found.zodbrepl("h1", "up")
    assert wait_until(partial(are_equal, found), later())
    return found


def data_file(three: Three, node: str) -> Path:
    return three.lab[three.host_of(node)].folder / node / "Data.fs"


def are_equal(three: Three) -> bool:
    """Return True if the data files of all nodes have the same size."""
    found = [data_file(three, node) for node in ("a", "b", "c")]
    return len({file.stat().st_size if file.exists() else -1 for file in found}) == 1


def received(three: Three) -> int:
    """Return the bytes that all hosts have received from others."""
    lines = [
        line.split()
        for host in three.lab
        for line in host.run("cat", "/proc/net/dev").stdout.splitlines()
    ]
    return sum(int(line[1]) for line in lines if line[0] == "eth0:")


def is_promoted(three: Three) -> bool:
    done = three.zodbrepl("h2", "failover", *REASON, code=None)
    return done.returncode == ExitCode.OK


@pytest.mark.exhaustive
def test_a_diverged_node_joins_again_for_less_than_a_hundredth_of_its_data(three: Three) -> None:
    with Counted(three, "h1") as inside:
        three.lab.network.isolate("h1")
        assert wait_until(partial(is_promoted, three), later())
        inside.see_more()
    with Counted(three, "h2", 10**6):
        three.lab.network.heal()
    three.zodbrepl("h1", "node", "stop", "a", code=None)
    private = held(three, "a") - held(three, three.primary("h2"))
    before = received(three)
    three.zodbrepl("h3", "rejoin", "a", "--reason", "its host is back")
    assert wait_until(partial(are_equal, three), later())
    moved = received(three) - before
    print(f"{moved} bytes moved for {data_file(three, 'a').stat().st_size}")
    assert moved < data_file(three, "a").stat().st_size / 100
    assert held(three, "a") == held(three, three.primary("h2"))
    assert exported(three) == len(private) > 0
