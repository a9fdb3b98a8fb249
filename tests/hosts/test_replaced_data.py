"""A follower whose data were replaced proves nothing until it has caught up.

It has confirmed commits that it no longer holds.  Without the lost primary nobody may conclude from
its last transaction that no acknowledged commit is lost.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from functools import partial

import pytest
from counted import Counted, held
from elected import LEASE, Elected
from patience import wait_until
from three import later

from indico_zodbrepl.demo.lab import Lab

REPLICATION_PORT = 8202
"""Of node a."""


@pytest.fixture(scope="module")
def shared(shared_lab: Lab) -> Elected:
    found = Elected(shared_lab, more="synchronous 1")
    found.start()
    return found


@pytest.fixture
def three(shared: Elected) -> Iterator[Elected]:
    """Three hosts whose nodes b and c follow node a."""
    assert shared.see_leader("h3")["node"] == "a"
    yield shared
    shared.restore()


def problem(three: Elected, node: str) -> str:
    """Return why a node can't take over, as ``status`` shows it."""
    found = three.status("h3")["automation"]["candidates"]
    return next((str(each["problem"]) for each in found if each["node"] == node), "unknown")


def is_fit(three: Elected, node: str) -> bool:
    return problem(three, node) == ""


def wipe(three: Elected, node: str) -> None:
    """Stop a node, and remove its data file, its index and its uploaded files."""
    host = three.host_of(node)
    three.zodbrepl(host, "node", "stop", node)
    folder = three.lab[host].folder / node
    for path in folder.glob("Data.fs*"):
        path.unlink()
    shutil.rmtree(folder / "blobs", ignore_errors=True)


@pytest.mark.exhaustive
def test_a_wiped_follower_is_no_proof_until_it_has_caught_up(three: Elected) -> None:
    for node in ("b", "c"):
        assert wait_until(partial(is_fit, three, node), later()), three.logs()
    with Counted(three, "h2") as writer:
        three.lab.network.block("h3", REPLICATION_PORT)
        writer.see_more(50)  # only node b confirms them
        wipe(three, "b")
    acknowledged = set(writer.acknowledged)
    assert acknowledged - held(three, "c"), "node c has got what node b confirmed"
    three.lab.network.block("h2", REPLICATION_PORT)
    three.zodbrepl("h2", "node", "start", "b")
    three.lab["h1"].kill()

    def is_replaced() -> bool:
        return bool(three.leader("h3")["node"] != "a")

    assert not wait_until(is_replaced, time.monotonic() + 5 * LEASE), (
        f"{len(acknowledged - held(three, 'c'))} acknowledged commits are lost\n{three.logs()}"
    )
    why = "its data prove nothing about acknowledged commits: it started without data"
    assert why in three.log("h3"), three.logs()
    assert why in problem(three, "b")
    shown = " ".join(three.zodbrepl("h3", "status", code=None).stdout.split())
    assert why in shown, shown

    three.restore()
    assert acknowledged <= held(three, three.leader("h3")["node"])
    assert wait_until(partial(is_fit, three, "b"), later()), three.logs()
    three.lab["h1"].kill()
    taken = three.see_leader("h3", other_than="a")
    assert acknowledged <= held(three, taken["node"]), "acknowledged and lost"
    assert wait_until(partial(three.has_completed, "h3", taken["epoch"]), later()), three.logs()
