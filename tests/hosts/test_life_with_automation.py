"""The life of a cluster with automation: pack, backup, clone, a restart of everything in order.

A program commits all the time.  No command moves the role that is not meant to, and no
acknowledged commit is lost.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest
from counted import Counted, served
from elected import Elected
from three import HOME

from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import etcd_control

pytestmark = pytest.mark.skipif(etcd_control.find() is None, reason="lacks etcd-server")


@contextlib.contextmanager
def committing(three: Elected, first: int, *, moves: int = 0) -> Iterator[str]:
    """Commit meanwhile; yield the leader.  The role moves that often, and keeps all commits."""
    before = three.see_leader("h1")
    with Counted(three, "h2", first) as writer:
        yield before["node"]
        writer.see_more()
    after = three.see_leader("h1")
    assert after["epoch"] == before["epoch"] + moves, three.logs()
    if not moves:
        assert after["node"] == before["node"]
    assert not set(writer.acknowledged) - served(three, "h2", after["node"])


def follower(leader: str) -> str:
    return next(node for node in ("c", "b", "a") if node != leader)


def test_a_pack_and_a_backup_move_no_role(three: Elected) -> None:
    with committing(three, 1_000_000):
        three.zodbrepl("h1", "pack", "--days", "0", "--reason", "a test")
        folder = str(three.lab.srv / "backups")
        three.zodbrepl("h3", "backup", "--to", f"h3:{folder}", "--reason", "a test")


def test_a_clone_of_a_follower_moves_no_role(three: Elected) -> None:
    with committing(three, 2_000_000) as leader:
        three.zodbrepl("h1", "clone", follower(leader), "--reason", "a test")


@pytest.mark.exhaustive
def test_all_nodes_restart_in_the_order_of_an_upgrade(three: Elected) -> None:
    with committing(three, 3_000_000, moves=1) as leader:
        followers = [node for node in ("a", "b", "c") if node != leader]
        for node in followers:
            three.zodbrepl("h1", "restart", node, "--reason", "an upgrade")
        three.zodbrepl("h1", "switchover", followers[0], "--reason", "an upgrade")
        three.zodbrepl("h1", "restart", leader, "--reason", "an upgrade")
        for host in ("h1", "h2", "h3"):
            three.zodbrepl(host, "up", "--this-host")


def test_the_commands_of_an_upgrade_leave_no_old_automation_and_lose_nothing(
    three: Elected,
) -> None:
    hosts = ["h1", "h2", "h3"]
    with committing(three, 4_000_000, moves=1) as leader:
        hosts.sort(key=lambda host: three.host_of(leader) == host)  # the leader's comes last
        for host in hosts:
            age_automation(three, host)
            shown = three.zodbrepl(host, "upgrade", "--check", code=ExitCode.UPGRADE_PENDING).stdout
            assert f"automation-{host}   0.1.0: to be restarted" in shown
            for command in (line for line in shown.splitlines() if line.startswith("  ")):
                three.lab[host].run("sh", "-c", command, folder=HOME)
            three.zodbrepl(host, "upgrade", "--check")


def age_automation(three: Elected, host: str) -> None:
    """Let the automation of a host be one of the first release."""
    path = three.lab[host].folder / f"var/run/automation-{host}.release"
    path.write_text(json.dumps({**json.loads(path.read_text()), "release": "0.1.0"}))


def test_a_restore_is_refused_until_the_automation_is_paused(three: Elected) -> None:
    folder = str(three.lab.srv / "restorable")
    with committing(three, 5_000_000) as leader:
        three.zodbrepl("h3", "backup", "--to", f"h3:{folder}", "--reason", "a test")
        command = ("restore", leader, "--from", f"h3:{folder}", "--reason", "a test")
        refused = three.zodbrepl("h1", *command, code=int(ExitCode.REFUSED))
        assert "the automation is not paused" in refused.stderr
