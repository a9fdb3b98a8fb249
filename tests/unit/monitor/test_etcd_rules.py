"""What status says about the members of etcd."""

from __future__ import annotations

import dataclasses

import situations
from situations import server, snapshot

from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.etcd.health import Health, MemberHealth, understood
from indico_zodbrepl.monitor.automation import LATE
from indico_zodbrepl.monitor.host_status import Automation
from indico_zodbrepl.monitor.snapshot import EpochWord
from indico_zodbrepl.probing.answers import Alert, Level

URLS = tuple(f"https://10.0.0.{number}:8141" for number in (1, 2, 3))
WHOLE = tuple(MemberHealth(url, "", str(n), "0", "7", 50) for n, url in enumerate(URLS))


def cluster() -> Cluster:
    etcd = Etcd(client_port=8141, peer_port=8142)
    return dataclasses.replace(situations.cluster(), etcd=etcd)


def alerts(*changes: MemberHealth) -> list[Alert]:
    changed = {each.url: each for each in changes}
    members = tuple(changed.get(each.url, each) for each in WHOLE)
    found = snapshot(cluster(), etcd=Health(members), servers={"a": server("a")})
    return [each for each in found.warnings if "etcd" in each.text]


def lost(number: int) -> MemberHealth:
    return MemberHealth(URLS[number], "connection refused")


def test_three_members_with_a_leader_are_healthy() -> None:
    assert alerts() == []
    leader = Health(WHOLE).leader
    assert leader is not None
    assert leader.url == URLS[0]


def test_the_loss_of_one_member_is_a_warning_with_the_reason() -> None:
    [alert] = alerts(lost(2))
    assert alert.level is Level.WARNING
    assert f"{URLS[2]}: connection refused" in alert.detail
    assert "etcd replace" in alert.hint


def test_without_a_majority_it_says_when_writes_stop() -> None:
    [alert] = alerts(lost(1), MemberHealth(URLS[2], "it knows no leader"))
    assert "1 of 3 members serve, 2 are needed" in alert.text
    assert "refuses writes after 3 s" in alert.detail
    assert "start the hosts of these members" in alert.hint
    assert "see the fsync time of their disks" in alert.hint


def test_members_that_run_and_do_not_agree_are_no_lost_hosts() -> None:
    leaderless = [
        dataclasses.replace(each, problem="it knows no leader", leader="") for each in WHOLE[:2]
    ]
    [alert] = alerts(*leaderless)
    assert "1 of 3 members serve, 2 are needed" in alert.text
    assert "fsync time of their disks" in alert.hint
    assert "start" not in alert.hint


def test_etcd_that_runs_and_does_not_answer_in_time_has_slow_disks_or_a_slow_network() -> None:
    made = dataclasses.replace(cluster(), automatic=True)
    unknown = Automation(3.0, LATE)
    [alert] = snapshot(made, automation=unknown, etcd=Health(WHOLE)).warnings
    assert "etcd does not answer here" in alert.text
    assert "fsync time of their disks" in alert.hint
    silent = Health(tuple(MemberHealth(url, "no answer in time") for url in URLS))
    hints = [each.hint for each in snapshot(made, automation=unknown, etcd=silent).warnings]
    assert [True, True] == ["`bin/zodbrepl up` on each" in hint for hint in hints]


def test_a_member_that_seems_lost_while_the_others_hang_is_not_to_be_replaced() -> None:
    made = dataclasses.replace(cluster(), automatic=True)
    hanging = Health((*WHOLE[:2], dataclasses.replace(WHOLE[2], problem="it knows no leader")))
    seen = snapshot(made, automation=Automation(3.0, LATE), etcd=hanging).warnings
    [lost] = [each for each in seen if "do not serve" in each.text]
    assert "fsync time of their disks" in lost.hint
    assert "replace" not in lost.hint


def test_a_full_database_is_critical() -> None:
    [alert] = alerts(dataclasses.replace(WHOLE[0], full=True))
    assert alert.level is Level.CRITICAL
    assert "docs/how-to/etcd.md" in alert.hint


def test_members_of_two_clusters_a_late_one_and_a_slow_one_are_named() -> None:
    [stranger] = alerts(dataclasses.replace(WHOLE[1], cluster="8"))
    assert URLS[1] in stranger.detail
    [late] = alerts(*(dataclasses.replace(each, index=5000) for each in WHOLE[:2]))
    assert URLS[2] in late.text
    [slow] = alerts(dataclasses.replace(WHOLE[2], seconds=0.4))
    assert "0.40 s" in slow.detail


def test_a_restored_snapshot_is_noticed_by_its_epoch() -> None:
    made = dataclasses.replace(cluster(), automatic=True)
    words = (EpochWord("host h1", 3, "a", ""),)
    found = Automation(3.0, leader="b", leader_epoch=2)
    seen = snapshot(made, automation=found, records=words, servers={"a": server("a", epoch=3)})
    [alert] = [each for each in seen.warnings if "older" in each.text]
    assert "epoch 2, the hosts know epoch 3" in alert.text


def test_the_answer_of_a_member_is_understood() -> None:
    header = {"cluster_id": "7", "member_id": "1"}
    content = {"header": header, "leader": "1", "raftAppliedIndex": "9", "dbSize": "20480"}
    found = understood(URLS[0], content, 0.01)
    assert found == MemberHealth(URLS[0], "", "1", "1", "7", 9, 20480, False, 0.01)
    assert found.leads
    full = understood(URLS[0], {**content, "errors": ["memberID:1 alarm:NOSPACE "]}, 0.01)
    assert full.full
    alone = understood(URLS[0], {"header": header, "errors": ["etcdserver: no leader"]}, 0.01)
    assert alone.problem == "it knows no leader"


def test_a_learner_has_no_vote_and_counts_for_no_majority() -> None:
    header = {"header": {"member_id": "9", "cluster_id": "7"}, "leader": "1"}
    learner = understood("https://10.0.0.4:8141", {**header, "isLearner": True}, 0.01)
    assert not learner.votes
    assert understood(URLS[0], header, 0.01).votes
    health = Health((WHOLE[0], lost(1), lost(2), learner))
    assert (2, False) == (health.needed, health.has_majority)
