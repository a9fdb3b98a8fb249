"""A clone puts nothing out of sight that is nowhere else."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from clone_facts import FACTS

from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.operations.clone import plan_clone
from indico_zodbrepl.operations.model import Plan, Refusal

HOME = Path(__file__).parents[3]
CLUSTER = load(HOME / "etc" / "cluster.conf", HOME)
OWN = dataclasses.replace(FACTS, private=35)


def plan(**more: object) -> Plan | Refusal:
    facts = dataclasses.replace(OWN, **more)  # type: ignore[arg-type]
    return plan_clone(CLUSTER, facts, "a reason", Commands(CLUSTER, HOME))


def test_a_node_with_transactions_of_its_own_is_to_rejoin_first() -> None:
    refused = plan()
    assert isinstance(refused, Refusal)
    assert "has 35 transactions that a lacks" in [finding.text for finding in refused.findings]
    assert "rejoin b" in refused.hint


def test_what_was_exported_is_out_of_sight_for_nobody() -> None:
    found = plan(exported=Path("/lost-tails/b"))
    assert isinstance(found, Plan)
    assert found.loss is None


def test_a_node_that_cannot_rejoin_is_cloned_and_its_loss_is_reported() -> None:
    found = plan(given_up=True)
    assert isinstance(found, Plan)
    assert found.loss is not None
    assert 35 == found.loss.transactions
    assert "/kept" in found.loss.text


def test_of_a_damaged_file_nobody_knows_what_only_it_has() -> None:
    found = plan(private=None)
    assert isinstance(found, Plan)
    assert found.loss is not None
    assert found.loss.transactions is None
    assert "perhaps something" in found.loss.text


def test_what_may_be_lost_is_exported_before_the_old_data_are_moved_aside() -> None:
    found = plan(private=0, doubtful=10, after="0400000000000005")
    assert isinstance(found, Plan)
    assert found.loss is not None
    assert (None, False) == (found.loss.transactions, found.loss.exact)
    assert "up to 10 transactions of b that can't be shown to be common" in found.loss.text
    actions = [step.action for step in found.steps]
    assert ["fence", "rejoin-export", "clone-copy", "clone-swap"] == actions[:4]
    export = found.steps[1].arguments
    assert ("0400000000000005", None) == (export["after"], export["private"])


def test_what_a_node_that_cannot_rejoin_has_of_its_own_is_exported() -> None:
    found = plan(given_up=True, after="0400000000000005")
    assert isinstance(found, Plan)
    assert found.loss is not None
    assert "exported first" in found.loss.text
    assert 35 == found.steps[1].arguments["private"]


def test_a_node_that_has_nothing_of_its_own_loses_nothing() -> None:
    found = plan(private=0)
    assert isinstance(found, Plan)
    assert found.loss is None
