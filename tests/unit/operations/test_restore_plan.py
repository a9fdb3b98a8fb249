"""What a restore plans from what is known, and when it refuses and says the better way."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.host.backup import Backup, BackupFolder, Newer, iso, moment
from indico_zodbrepl.host.last_seen import LastSeen
from indico_zodbrepl.operations.model import KINDS, Plan, Refusal, plan_from_json
from indico_zodbrepl.operations.restore import plan_restore
from indico_zodbrepl.operations.restore_facts import Other, RestoreFacts

HOME = Path(__file__).parents[3]
GIGABYTE = 2**30
OLD, NEW, NEWEST = "03ff000000000000", "040d000000000000", "040d000100000000"

BACKUP = Backup(
    "2026-11-21-03-00-00.deltafs",
    "2026-11-21T03:00:00Z",
    2,
    GIGABYTE,
    (),
    NEW,
    "2026-11-21T02:59:00Z",
)
PRESENT = Newer(3, NEWEST, "2026-11-21T18:00:00Z", ("18:00  jane new conference",), "", GIGABYTE, 0)
ALONE = RestoreFacts(
    now=1_700_000_000.0,
    node="a",
    epoch=0,
    folder=BackupFolder("", Path("/backups")),
    backup=BACKUP,
    problem="",
    present=PRESENT,
    obstacle=("", ""),
    free=4 * GIGABYTE,
    aside=Path("/kept"),
    supervised=True,
    has_program=True,
    guarded=False,
    clients=("one", "two"),
)
LOST = Other("b", None, primary=False, runs=False)
PAIR = dataclasses.replace(ALONE, guarded=True, epoch=7, others=(LOST,))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster.conf").read_text())
    return load(path, tmp_path)


def plan(cluster: Cluster, facts: RestoreFacts, **more: object) -> Plan | Refusal:
    facts = dataclasses.replace(facts, **more)  # type: ignore[arg-type]
    return plan_restore(cluster, facts, "a reason", Commands(cluster, HOME))


def planned(cluster: Cluster, facts: RestoreFacts, **more: object) -> Plan:
    found = plan(cluster, facts, **more)
    assert isinstance(found, Plan), found
    return found


def refused(cluster: Cluster, facts: RestoreFacts, **more: object) -> Refusal:
    found = plan(cluster, facts, **more)
    assert isinstance(found, Refusal), found
    return found


def against(found: Refusal) -> str:
    return "; ".join(
        f"{each.text} {each.evidence}" for each in found.findings if each.verdict == "against"
    )


def test_everything_goes_on_until_the_backup_is_a_database(cluster: Cluster) -> None:
    found = planned(cluster, ALONE)
    assert [
        "restore-stage",
        "restore-end-clients",
        "fence",
        "restore-export",
        "restore-swap",
        "start",
        "restore-client",
        "restore-client",
        "restore-see",
    ] == [step.action for step in found.steps]
    assert "restore-swap" == found.steps[found.no_return()].action
    assert all(KINDS[step.action] is type(step) for step in found.steps)
    assert found == plan_from_json(found.to_json())


def test_what_is_newer_is_reported_with_who_did_it_and_counts_as_lost(cluster: Cluster) -> None:
    found = planned(cluster, ALONE)
    texts = [each.text for each in found.findings]
    assert "has 3 transactions that the backup lacks" in texts
    assert any("jane new conference" in text for text in texts)
    assert found.loss is not None
    assert (3, True, NEW) == (found.loss.transactions, found.loss.exact, found.loss.after)


def test_without_anything_newer_nothing_is_lost(cluster: Cluster) -> None:
    assert (
        planned(cluster, ALONE, present=dataclasses.replace(PRESENT, transactions=0, told=())).loss
        is None
    )


@pytest.mark.parametrize(
    "present",
    [None, dataclasses.replace(PRESENT, damage="Data.fs, offset 70: this is no transaction")],
)
def test_of_lost_or_damaged_data_nobody_knows_how_much_was_newer(
    cluster: Cluster, present: Newer | None
) -> None:
    loss = planned(cluster, ALONE, present=present).loss
    assert loss is not None
    assert (None, False) == (loss.transactions, loss.exact)


def test_what_the_watching_program_saw_is_missed(cluster: Cluster) -> None:
    seen = LastSeen(1_700_000_000.0, "a", int(NEWEST, 16) + 0x10000000)
    loss = planned(cluster, ALONE, last_seen=seen).loss
    assert loss is not None
    assert not loss.exact
    assert f"{seen.last_tid:016x}" in loss.text
    assert (
        planned(cluster, ALONE, last_seen=dataclasses.replace(seen, last_tid=int(NEWEST, 16))).loss
        == planned(cluster, ALONE).loss
    )


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"backup": None, "problem": "/backups has no backup"}, "there is no backup"),
        ({"backup": dataclasses.replace(BACKUP, problems=("x is 3 bytes",))}, "x is 3 bytes"),
        ({"free": GIGABYTE}, "its disk has too little room"),
        (
            {"present": dataclasses.replace(PRESENT, damage="damaged", size=4 * GIGABYTE)},
            "its disk has too little room",
        ),
        ({"strangers": (4711,)}, "processes 4711"),
        (
            {"obstacle": ("a pack did not end", "put it back: mv Data.fs.old Data.fs")},
            "a pack did not end",
        ),
    ],
)
def test_what_stands_against_a_restore_is_said_before_anything_is_changed(
    cluster: Cluster, more: dict[str, object], text: str
) -> None:
    found = refused(cluster, ALONE, **more)
    assert text in against(found)
    assert found.hint
    if "obstacle" in more:
        assert "mv Data.fs.old" in found.hint


def test_without_supervisord_only_the_data_are_exchanged(cluster: Cluster) -> None:
    found = planned(cluster, ALONE, supervised=False)
    assert ["restore-stage", "restore-export", "restore-swap"] == [
        step.action for step in found.steps
    ]


def test_without_a_server_only_indico_is_ended(cluster: Cluster) -> None:
    found = planned(cluster, ALONE, has_program=False)
    assert [
        "restore-stage",
        "restore-end-clients",
        "restore-export",
        "restore-swap",
        "restore-client",
        "restore-client",
        "restore-see",
    ] == [step.action for step in found.steps]


def test_when_all_nodes_are_lost_one_is_the_primary_of_a_new_epoch(cluster: Cluster) -> None:
    found = planned(cluster, PAIR)
    actions_of = [(step.action, step.subject) for step in found.steps]
    assert [("fence", "a"), ("fence", "b")] == [each for each in actions_of if each[0] == "fence"]
    lead = next(step for step in found.steps if step.action == "restore-lead")
    assert 7 == lead.arguments["epoch"] == found.epoch
    assert ("assign", "b") in actions_of
    assert actions_of.index(("assign", "b")) > actions_of.index(("restore-lead", "a"))
    assert "start" not in [action for action, _ in actions_of]


def test_an_older_node_has_to_rejoin_afterwards(cluster: Cluster) -> None:
    found = planned(cluster, PAIR, others=(dataclasses.replace(LOST, last=OLD),))
    assert any("rejoin afterwards" in each.evidence for each in found.findings)


@pytest.mark.parametrize(
    ("other", "present", "way"),
    [
        (Other("b", NEWEST, primary=True, runs=True), None, "clone a"),
        (Other("b", NEWEST, primary=True, runs=True), PRESENT, "rejoin a"),
        (Other("b", OLD, primary=True, runs=True), PRESENT, "rejoin a"),
        (Other("b", NEW, primary=False, runs=True), None, "failover b --reason"),
        (Other("b", NEWEST, primary=False, runs=False), None, " up"),
    ],
)
def test_another_node_with_the_data_is_the_better_way(
    cluster: Cluster, other: Other, present: Newer | None, way: str
) -> None:
    found = refused(cluster, PAIR, others=(other,), present=present)
    assert way in found.hint.partition(";")[0]
    assert "node stop b" in found.hint


def test_a_node_whose_host_does_not_answer_may_have_newer_data(cluster: Cluster) -> None:
    silent = dataclasses.replace(LOST, away="host two does not answer")
    found = refused(cluster, PAIR, others=(silent,))
    assert "may have newer data" in against(found)
    assert any("host two does not answer" in each.evidence for each in found.findings)


def test_an_instance_that_can_not_be_stopped_stands_against_a_restore(cluster: Cluster) -> None:
    found = refused(cluster, ALONE, clients_away={"two": "host h2 does not answer"})
    assert "may go on with what the backup lacks host h2 does not answer" in against(found)


def test_a_restore_does_not_need_the_host_of_the_monitor(cluster: Cluster) -> None:
    found = planned(cluster, ALONE, monitor_away="host three does not answer")
    assert any("host three does not answer" in each.evidence for each in found.findings)


def test_a_backup_that_is_copied_to_the_nodes_host_needs_room_twice() -> None:
    assert BACKUP.bytes == dataclasses.replace(ALONE, copied=True).needed - ALONE.needed


def test_roles_need_a_supervisord(cluster: Cluster) -> None:
    found = refused(cluster, PAIR, supervised=False)
    assert "supervisord does not run" in against(found)
    assert " up" in found.hint


def test_the_time_limits_grow_with_the_data(cluster: Cluster) -> None:
    small = planned(cluster, ALONE, backup=dataclasses.replace(BACKUP, bytes=1))
    large = planned(
        cluster, ALONE, free=2**50, backup=dataclasses.replace(BACKUP, bytes=100 * GIGABYTE)
    )
    assert small.steps[0].seconds < 1000
    assert large.steps[0].seconds > 100_000


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("2026-11-21T18:00", "2026-11-21-18-00-00"),
        ("2026-11-21", "2026-11-21-00-00-00"),
        ("2026-11-21T18:00:05Z", "2026-11-21-18-00-05"),
        ("2026-11-21T18:00:00+01:00", "2026-11-21-17-00-00"),
    ],
)
def test_a_time_is_typed_as_people_write_it(typed: str, name: str) -> None:
    assert name == moment(typed)


def test_the_moment_of_a_backup_is_in_its_name() -> None:
    assert "2026-11-21T18:00:05Z" == iso("2026-11-21-18-00-05.deltafs")


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00+05:00"])
def test_a_time_beyond_the_calendar_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        moment(text)
