"""Whether a failover by hand loses acknowledged commits, and what its plan says of that."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from planning import cluster_of, situation
from situations import PRIMARY_KILLED, TID, server

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.host.promise import Promise
from indico_zodbrepl.monitor.host_status import Automation, Candidate
from indico_zodbrepl.operations.doubt import findings, told
from indico_zodbrepl.operations.model import Finding, Loss, Verdict

STAR = cluster_of(c=("a", Role.SECONDARY))
KEPT = Promise(1, "synchronous", 1, "fsync")
LOSS = Loss("a", 3, 1.0, True, f"{TID:016x}", "3 transactions")


def said(
    promise: Promise | None,
    *,
    configured: int = 1,
    automation: Automation | None = None,
    **changes: Any,
) -> list[Finding]:
    servers = {"b": server("b", connected=False), "c": server("b", node="c", connected=False)}
    servers |= changes.pop("servers", {})
    killed = {**PRIMARY_KILLED, **changes}
    found = situation(STAR, **{**killed, "servers": {**killed["servers"], **servers}})
    found = dataclasses.replace(found, promise=promise)
    snapshot = dataclasses.replace(found.snapshot, automation=automation)
    found = dataclasses.replace(found, snapshot=snapshot)
    return list(findings(found, snapshot.node("a"), snapshot.node("b"), configured))


def test_the_newest_of_enough_nodes_has_every_acknowledged_commit() -> None:
    (found,) = said(KEPT)
    assert (Verdict.FINE, "has every acknowledged commit") == (found.verdict, found.text)


def test_too_few_nodes_prove_nothing() -> None:
    down = PRIMARY_KILLED["servers"]["a"]
    (found,) = said(KEPT, servers={"c": down})
    assert (Verdict.WARNING, "may lack acknowledged commits") == (found.verdict, found.text)
    assert "1 of the 2 nodes" in found.evidence


def test_a_node_that_may_lack_what_it_confirmed_proves_nothing() -> None:
    """The automation of its host has seen that its data were replaced."""
    restored = Candidate("c", "", "", doubt="it was restored from a backup")
    (found,) = said(KEPT, automation=Automation(3.0, candidates=(restored,)))
    assert (Verdict.WARNING, "may lack acknowledged commits") == (found.verdict, found.text)
    assert "1 of the 2 nodes" in found.evidence


@pytest.mark.parametrize(
    ("promise", "text"),
    [
        (dataclasses.replace(KEPT, state="alone"), "acknowledged commits that no other node has"),
        (
            dataclasses.replace(KEPT, epoch=9),
            "may have acknowledged commits that no other node has",
        ),
        (None, "it is unknown if it acknowledged commits that no other node has"),
    ],
)
def test_commits_that_only_the_lost_primary_has_are_named(
    promise: Promise | None, text: str
) -> None:
    (found,) = said(promise)
    assert (Verdict.WARNING, text) == (found.verdict, found.text)


def test_asynchronous_replication_is_told_nothing_new() -> None:
    assert not said(None, configured=0)
    assert not said(Promise(1, "off", 0, "fsync"), configured=0)


def test_a_loss_says_what_clients_were_told() -> None:
    found = dataclasses.replace(situation(STAR), promise=KEPT)
    old = found.snapshot.node("a")
    lost = told(found, old, LOSS)
    assert lost is not None
    assert lost.text == "3 transactions; in doubt: never acknowledged"
    assert told(found, old, None) is None
    assert told(situation(STAR), old, LOSS) == LOSS
