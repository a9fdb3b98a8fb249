"""The health of real members of etcd: whole, one lost, no majority, full."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from clusters import wait_until
from etcd_members import etcd_members

from indico_zodbrepl.etcd import health
from indico_zodbrepl.etcd.client import Etcd
from indico_zodbrepl.etcd.problems import EtcdFullError
from indico_zodbrepl.etcd.transport import Transport

pytestmark = pytest.mark.skipif(shutil.which("etcd") is None, reason="lacks etcd-server")

SECONDS = 5.0


def test_lost_members_and_a_lost_majority_are_told_apart(tmp_path: Path) -> None:
    with etcd_members(tmp_path) as members:
        etcd = Etcd(Transport(members.endpoints))
        found = health.ask(etcd, SECONDS)
        assert len(found.serving) == 3
        assert found.leader is not None
        assert (found.full, found.strangers, found.behind) == (False, (), ())
        first, second = members.followers()
        first.kill()
        found = health.ask(etcd, SECONDS)
        assert found.has_majority
        assert [each.url for each in found.members if each.problem] == [first.url]
        second.kill()
        wait_until(lambda: not health.ask(etcd, SECONDS).has_majority, "the lost majority")
        problems = {each.url: each.problem for each in health.ask(etcd, SECONDS).members}
        assert problems[first.url].startswith("connection refused")
        assert "no leader" in "".join(problems.values())


def test_a_full_member_says_so(tmp_path: Path) -> None:
    with etcd_members(tmp_path, 1, "--quota-backend-bytes", "100000") as members:
        etcd = Etcd(Transport(members.endpoints))
        with pytest.raises(EtcdFullError):
            fill(etcd)
        assert health.ask(etcd, SECONDS).full


def fill(etcd: Etcd) -> None:
    """Write until the quota is used up; five megabytes at most."""
    for number in range(100):
        etcd.put(f"/fill/{number}", b"x" * 50_000, 30.0)
