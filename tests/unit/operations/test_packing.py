"""Which storages `bin/zodbrepl pack` packs, in which order, and when it refuses."""

from __future__ import annotations

import dataclasses
import fcntl
from pathlib import Path

import pytest
from planning import COMMANDS, cluster_of, steps_of
from situations import HOME, PRIMARY_KILLED, cluster, snapshot

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import packing as node_packing
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.packing import Packed
from indico_zodbrepl.host.py27 import Program, ProgramError
from indico_zodbrepl.operations import pack as packing
from indico_zodbrepl.operations import refusals
from indico_zodbrepl.operations.model import Context, Plan, Refusal, Step
from indico_zodbrepl.operations.pack import PackFacts
from indico_zodbrepl.probing.answers import Alert, Level


def test_each_node_of_a_pair_is_packed_separately_and_the_primary_last() -> None:
    pair = cluster_of()
    assert [
        ("b", Layout(pair).node_zodb_conf(pair.node("b"))),
        ("a", Layout(pair).node_zodb_conf(pair.node("a"))),
    ] == [(each.name, each.zodb_conf) for each in packing.targets(pair, snapshot(pair))]


def test_a_database_that_sees_to_its_copies_is_packed_once() -> None:
    engine = cluster(backend="relstorage-postgresql")
    assert [packing.Target(packing.ALL, Layout(engine).zodb_conf)] == list(
        packing.targets(engine, snapshot(cluster()))
    )


def test_nothing_speaks_against_a_pack_of_a_healthy_pair() -> None:
    assert [] == list(refusals.objections(snapshot()))


def test_a_node_that_is_away_speaks_against_a_pack() -> None:
    assert "a" in [each.subject for each in refusals.objections(snapshot(**PRIMARY_KILLED))]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (Level.CRITICAL, [("b", "it is odd")]),
        (Level.WARNING, [("b", "it is odd")]),
        (Level.NOTICE, []),
    ],
)
def test_a_node_out_of_order_speaks_against_a_pack(
    level: Level, expected: list[tuple[str, str]]
) -> None:
    alerts = (
        Alert(level, "b", "it is odd", "", ""),
        Alert(level, "one", "an instance of Indico is odd", "", ""),
    )
    assert expected == [
        (each.subject, each.text)
        for each in refusals.objections(dataclasses.replace(snapshot(), warnings=alerts))
    ]


def plan_of(facts: PackFacts) -> Plan | Refusal:
    pair = cluster_of()
    return packing.plan_pack(pair, facts, 7.0, "to make room", COMMANDS(pair))


def planned() -> Plan:
    found = plan_of(PackFacts(snapshot()))
    assert isinstance(found, Plan)
    return found


def test_a_pack_looks_once_more_and_then_packs_one_after_the_other() -> None:
    plan = planned()
    assert ["pack-ready ", "pack b", "pack a"] == steps_of(plan)
    assert 1 == plan.no_return()
    assert ["", "b"] == [step.arguments["after"] for step in plan.steps[1:]]
    assert "dataplane.programs.pack var/etc/zodb-b.conf --days 7" in plan.steps[1].command


def test_nothing_of_a_pack_keeps_a_failover_waiting() -> None:
    assert {True} == {step.may_fail for step in planned().steps[1:]}


def test_a_pack_is_refused_while_a_node_is_away() -> None:
    found = plan_of(PackFacts(snapshot(**PRIMARY_KILLED)))
    assert isinstance(found, Refusal)
    assert "pack refused: not every node is healthy" == found.notice


def test_a_pack_is_refused_while_one_process_keeps_the_database_to_itself() -> None:
    found = plan_of(PackFacts(snapshot(), "process 7 has it"))
    assert isinstance(found, Refusal)
    assert "bin/supervisorctl" in found.hint
    assert "indico-one indico-two" in found.hint


@pytest.mark.parametrize(("backend", "expected"), [("filestorage", True), ("zeo", False)])
def test_who_has_the_database_counts_where_one_process_alone_can(
    tmp_path: Path, backend: str, expected: bool
) -> None:
    [node] = cluster().nodes[:1]
    alone = cluster(backend=backend, nodes=(dataclasses.replace(node, data_directory=tmp_path),))
    lock = tmp_path / "Data.fs.lock"
    assert "" == packing.holder(alone)
    with lock.open("w") as held:
        held.write(" 4711\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        assert expected == ("process 4711" in packing.holder(alone))
    assert "" == packing.holder(alone)


def do(step: Step, packed: list[str], said: list[str]) -> object:
    results = {("pack", name): {"done": True} for name in packed}
    context = Context(cluster_of(), Installation(HOME), planned(), results, said.append, 0.0)
    return step.do(context)


def test_each_storage_tells_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Path, float]] = []

    def pack(
        _installation: object, conf: Path, days: float, _progress: object, _file: Path | None
    ) -> Packed:
        asked.append((conf, days))
        return Packed(2_000_000, 1_000_000, 3.0)

    monkeypatch.setattr(node_packing, "pack", pack)
    said: list[str] = []
    assert {"a": {"before": 2_000_000, "after": 1_000_000, "seconds": 3.0}} == do(
        planned().steps[2], ["b"], said
    )
    assert ["packed a in 3.0 s: 2.0 MB before, 1.0 MB after"] == said
    assert [(Layout(cluster_of()).node_zodb_conf(cluster_of().node("a")), 7.0)] == asked


def test_files_without_a_transaction_that_a_pack_put_aside_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Packed(2_000_000, 1_000_000, 3.0, unreferenced=2, unreferenced_bytes=5_000)
    monkeypatch.setattr(node_packing, "pack", lambda *_: found)
    said: list[str] = []
    do(planned().steps[2], ["b"], said)
    assert (
        "moved 2 blob files without a transaction (5.0 kB) to the folder blobs.old of a; "
        "the next pack removes them"
    ) in said


def test_the_primary_is_not_packed_when_its_follower_was_not() -> None:
    with pytest.raises(OperatorError, match="a was not packed") as raised:
        do(planned().steps[2], [], [])
    assert "b was not packed before it" == raised.value.detail


def test_a_storage_that_somebody_keeps_to_himself_says_what_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pack(*_arguments: object) -> Packed:
        raise OperatorError(
            "the storage was not packed", "another process has it open", exit_code=ExitCode.REFUSED
        )

    monkeypatch.setattr(node_packing, "pack", pack)
    with pytest.raises(OperatorError, match="b was not packed") as raised:
        do(planned().steps[1], [], [])
    assert "supervisorctl" in raised.value.hint
    assert ExitCode.REFUSED == raised.value.exit_code


def test_a_pack_that_one_copy_missed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_arguments: object, **_more: object) -> Packed:
        program = Program(node_packing.PROGRAM, "the storage was not packed")
        raise ProgramError(program, node_packing.IN_PART, ["127.0.0.1:8144 went away"])

    monkeypatch.setattr(py27, "run", run)
    with pytest.raises(OperatorError, match="b was packed in part") as raised:
        do(planned().steps[1], [], [])
    assert "127.0.0.1:8144 went away" == raised.value.detail
    assert raised.value.hint.endswith("pack --days 7")
    assert ExitCode.FAILED == raised.value.exit_code
