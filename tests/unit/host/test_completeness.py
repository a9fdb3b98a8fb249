"""Who can tell that a primary's data file lacks transactions of its epoch."""

from __future__ import annotations

import dataclasses
import itertools
import time
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.host import completeness, datafs, history
from indico_zodbrepl.host.completeness import Witness, is_witness, newest
from indico_zodbrepl.host.datafs_answers import Last
from indico_zodbrepl.host.history import Condition

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
COMPARED = history.nothing(3, was_writable=False)


def test_a_follower_that_was_compared_in_this_epoch_is_a_witness() -> None:
    assert is_witness(COMPARED, 3)


@pytest.mark.parametrize(
    "lineage",
    [
        None,
        dataclasses.replace(COMPARED, epoch=2),
        dataclasses.replace(COMPARED, was_writable=True),
        dataclasses.replace(COMPARED, condition=Condition.DIVERGED),
    ],
)
def test_one_that_may_have_transactions_of_its_own_is_none(
    lineage: history.Lineage | None,
) -> None:
    assert not is_witness(lineage, 3)


def test_nobody_objects_to_a_file_that_has_all() -> None:
    assert newest([Witness("node b", 5, "b"), Witness("the monitor process", 4)], 5) is None


def test_a_node_that_has_the_transactions_is_named_before_one_who_saw_later_ones() -> None:
    """It can take over."""
    witnesses = [Witness("the monitor process", 9), Witness("node b", 7, "b"), Witness("c", 6, "c")]
    assert newest(witnesses, 5) == witnesses[1]
    assert newest(witnesses[:1], 5) == witnesses[0]


def test_a_primary_that_takes_writes_meanwhile_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own file is read last, when it holds all that its followers were found to have."""
    cluster = load(EXAMPLE, tmp_path)
    for node in cluster.nodes:
        data_fs(node).parent.mkdir(parents=True)
        data_fs(node).write_bytes(bytes(100))
        history.write(node, COMPARED)
    numbers = itertools.count(1)

    def last(_installation: Installation, file: Path, _seconds: float = 0.0) -> Last:
        if file != data_fs(cluster.node("a")):
            time.sleep(0.2)  # meanwhile a is read, if anybody does so
        return Last(f"{next(numbers):016x}", None, 100, 100)

    monkeypatch.setattr(datafs, "last", last)
    claim = NodeState(cluster.name, "a", Role.PRIMARY, None, 3)
    completeness.refuse_incomplete(cluster, Installation(tmp_path), claim)
