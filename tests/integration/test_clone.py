"""An interrupted clone continues where it stopped, and brings an index that fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import ClusterUnderTest
from zeo_client import python27

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.host.replacing import part
from indico_zodbrepl.operations.clone import plan_clone
from indico_zodbrepl.operations.clone_facts import CloneFacts
from indico_zodbrepl.operations.model import Context, Figures, Plan

# A data file with its index.
MAKE = """
import sys, transaction, ZODB
from persistent.mapping import PersistentMapping
db = ZODB.DB(sys.argv[1])
root = db.open().root()
for number in range(20):
    root[number] = PersistentMapping(text=100000 * 'x')
    transaction.commit()
db.close()
"""
# How many transactions a server reads that opens the file: those that the index lacks.
READ_AT_START = """
import sys
from ZODB.FileStorage import FileStorage
storage = FileStorage(sys.argv[1], read_only=True)
index, position, tid = storage._restore_index()
print(sum(1 for each in storage.iterator() if each.tid > tid))
"""


class Cloning:
    """Node a's data, and the step that copies it to node b; no server runs."""

    def __init__(self, under_test: ClusterUnderTest) -> None:
        self.under_test = under_test
        self.cluster = under_test.cluster
        self.source, self.target = data_fs(self.cluster.node("a")), part(self.cluster.node("b"))
        for node in self.cluster.nodes:
            node.data_directory.mkdir(parents=True)
        python27(under_test, MAKE, self.source)
        self.told: list[str] = []

    def copy(self) -> Figures:
        facts = CloneFacts(
            now=0.0,
            node="b",
            primary="a",
            epoch=1,
            primary_problem="",
            source="a",
            source_problem="",
            has_followers=False,
            following=False,
            aside=Path("/nowhere"),
            size=1,
            copied=0,
            free=2**40,
            has_data=False,
        )
        found = plan_clone(self.cluster, facts, "", Commands.here(self.cluster))
        assert isinstance(found, Plan)
        step = next(step for step in found.steps if step.action == "clone-copy")
        return step.do(
            Context(
                cluster=self.cluster,
                installation=self.under_test.installation,
                began=0.0,
                plan=found,
                results={},
                say=self.told.append,
            )
        )

    def is_whole(self) -> bool:
        return self.source.read_bytes() == self.target.read_bytes()


@pytest.fixture
def cloning(cluster: ClusterUnderTest) -> Cloning:
    return Cloning(cluster)


@pytest.mark.parametrize("left", ["Data.fs.part", "Data.fs"])
def test_a_copy_that_was_cut_short_goes_on(cloning: Cloning, left: str) -> None:
    cloning.target.parent.mkdir()
    cloning.target.with_name(left).write_bytes(cloning.source.read_bytes()[:1_500_000])
    figures = cloning.copy()
    assert cloning.is_whole()
    resumed = figures["resumed_bytes"]
    assert isinstance(resumed, int)
    assert 0 < resumed <= 1_500_000


def test_what_another_copy_had_left_is_not_taken_over(cloning: Cloning) -> None:
    cloning.target.parent.mkdir()
    cloning.target.with_name("Data.fs.part").write_bytes(1_500_000 * b"y")
    cloning.copy()
    assert cloning.is_whole()


def test_the_server_of_a_copy_reads_nothing_that_the_index_has(cloning: Cloning) -> None:
    cloning.copy()
    assert "0" == python27(cloning.under_test, READ_AT_START, cloning.target).strip()


def test_a_source_without_an_index_is_copied_without_one(cloning: Cloning) -> None:
    cloning.source.with_name("Data.fs.index").unlink()
    cloning.copy()
    assert cloning.is_whole()
    assert not cloning.target.with_name("Data.fs.index").exists()


def test_how_far_the_copy_is_is_reported(cloning: Cloning) -> None:
    cloning.copy()
    assert cloning.told[0].startswith("data: ")
    assert " MiB of 2 MiB" in cloning.told[0]
