"""PostgreSQL and MariaDB on three hosts: the role moves, a host is lost, and nothing else is.

A program commits all the time.  Each number that was acknowledged to it is in the end in the
database of every node, or in a recovery export.
"""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from counted import Counted, exported_numbers, served
from labs import labs_in
from patience import wait_until
from three import Three, later

from indico_zodbrepl.errors import ExitCode

REASON = ("--reason", "the host of the primary is lost")


SECTION = "synchronous 1\nsynchronous-alone degrade\nsynchronous-timeout 2"
BACKENDS = ("postgresql", pytest.param("mariadb", marks=pytest.mark.exhaustive))

POSTGRESQL = ("psql", "-w", "-h", "127.77.0.11", "-p", "8201", "-c", "SELECT 1", "-U")
MARIADB = ("mariadb", "--no-defaults", "-h", "127.77.0.11", "-P", "8201", "-e", "SELECT 1", "-u")
LOGINS = {
    "relstorage-postgresql": (
        POSTGRESQL,
        {"indico": "indico", "zodbrepl": "postgres", "zodbrepl_replication": "postgres"},
        "no password supplied",
    ),
    "relstorage-mariadb": (
        MARIADB,
        {"indico": "indico", "root": "mysql", "zodbrepl_replication": "indico"},
        "Access denied for user",
    ),
}
"""The command before user and database, the users, and what a server says without a password."""


@pytest.fixture(scope="module", params=BACKENDS)
def three(
    request: pytest.FixtureRequest, _possible: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Three]:
    """Three hosts with a node each, which every test leaves running."""
    with labs_in(tmp_path_factory.mktemp("labs")) as make:
        backend = f"relstorage-{request.param}"
        found = Three(make(3), "tls", backend=backend, section=SECTION)
        found.agents()
        found.zodbrepl("h2", "up")
        yield found


def healthy(three: Three, host: str) -> bool:
    return bool(three.status(host)["state"] == "healthy")


def account_for(three: Three, *writers: Counted) -> None:
    """Check each acknowledged number, and that all nodes have the same."""
    acknowledged = {number for each in writers for number in each.acknowledged}
    goal = served(three, "h2", three.primary("h2"))
    assert acknowledged <= goal | exported_numbers(three)
    for node in ("a", "b", "c"):
        assert wait_until(lambda node=node: served(three, "h3", node) == goal, later()), node  # type: ignore[misc]


def fail_over(three: Three, host: str) -> str:
    """Type failovers on a host until one is accepted: followers notice a silent host in time.

    Return what it said.
    """
    said: list[str] = []

    def succeeds() -> bool:
        done = three.zodbrepl(host, "failover", *REASON, code=None)
        said[:] = [done.stdout + done.stderr]
        return done.returncode == ExitCode.OK

    assert wait_until(succeeds, later()), said
    return " ".join(said[0].split())


def test_every_host_sees_healthy_nodes_and_has_the_passwords(three: Three) -> None:
    for host in three.lab:
        assert wait_until(partial(healthy, three, host.name), later()), three.status(host.name)
        for path in Path(host.folder).glob("var/secrets/*"):
            readable_by_its_owner = stat.S_IMODE(path.stat().st_mode) == 0o600
            assert readable_by_its_owner or not path.read_bytes(), path


def test_servers_want_a_password_and_only_tunnels_cross_the_network(three: Three) -> None:
    command, users, refusal = LOGINS[three.backend]
    for user, database in users.items():
        for host in ("h1", "h3"):
            done = three.lab[host].run(*command, user, database, check=False)
            assert refusal in done.stderr, (user, host)
    assert {each for host in three.lab for each in crossing(three, host.name)} == {"haproxy"}


def crossing(three: Three, host: str) -> set[str]:
    """Return the programs with connections to other hosts, without the agents."""
    found = three.lab[host].run("ss", "-Htnp", "state", "established").stdout.splitlines()
    ends = [line.split() for line in found if '"' in line]  # without those of no process any more
    return {
        users.split('"')[1]
        for _received, _sent, own, peer, users in ends
        if peer.startswith("10.77.") and ":8300" not in own + peer
    }


def knows_lags(three: Three) -> bool:
    followers = [each for each in three.status("h1")["nodes"] if each["upstream"]]
    return len(followers) == 2 and all(each["lag_seconds"] is not None for each in followers)


def test_a_switchover_moves_the_role_to_another_host_without_loss(three: Three) -> None:
    assert wait_until(lambda: knows_lags(three), later()), "a replica that has just begun"
    three.zodbrepl("h3", "switchover", "b")  # which has nothing but the copy
    assert healthy(three, "h1")
    with Counted(three, "h3") as writer:
        three.zodbrepl("h3", "switchover", "c")
        writer.see_more()
    assert three.primary("h1") == "c"
    assert not exported_numbers(three)
    account_for(three, writer)


def test_after_the_loss_of_a_host_writes_go_on_and_the_host_joins_again(three: Three) -> None:
    former = three.primary("h2")
    host = three.host_of(former)
    other = next(each for each in ("h2", "h3") if each != host)
    with Counted(three, other, 10**6) as writer:
        three.lab[host].kill()
        fail_over(three, other)
        writer.see_more()
        three.lab[host].start()
        three.agents([host])
        refused = three.zodbrepl(host, "up", code=None)
        assert f"rejoin {former}" in refused.stderr
        three.zodbrepl(other, "rejoin", former, "--reason", "its host is back")
        writer.see_more()
    account_for(three, writer)


def state_of_commits(three: Three, node: str) -> str:
    """Return how a primary acknowledges commits, as it has recorded it."""
    path = three.lab[three.host_of(node)].folder / node / "synchronous.json"
    return str(json.loads(path.read_text())["state"])


def hosts_that_know(three: Three) -> int:
    """Return how many hosts have a record that the primary goes on alone."""
    records = [host.folder / "var/promise.json" for host in three.lab]
    return sum(
        json.loads(each.read_text())["state"] == "alone" for each in records if each.exists()
    )


def test_a_primary_goes_on_alone_only_when_a_majority_of_the_hosts_knows(three: Three) -> None:
    primary = three.primary("h2")
    host = three.host_of(primary)
    others = [each for each in ("a", "b", "c") if each != primary]
    with Counted(three, host, 4 * 10**6) as writer:
        three.lab.network.isolate(host)
        assert wait_until(lambda: state_of_commits(three, primary) == "asking", later())
        before = len(writer.acknowledged)
        time.sleep(3.0)  # it asks about ten times meanwhile
        assert len(writer.acknowledged) == before
        assert hosts_that_know(three) <= 1
        three.lab.network.heal()
        writer.see_more()
        for node in others:
            three.zodbrepl(host, "node", "stop", node)
        writer.see_more(200)
        assert state_of_commits(three, primary) == "alone"
        assert hosts_that_know(three) >= 2
        for node in others:
            three.zodbrepl(host, "node", "start", node)
        settled = lambda: state_of_commits(three, primary) == "synchronous"  # noqa: E731
        assert wait_until(settled, later())
        assert wait_until(lambda: not hosts_that_know(three), later())
        writer.see_more()
    account_for(three, writer)


@pytest.mark.exhaustive  # the loss of a host is tested always
def test_what_an_isolated_primary_took_is_exported_when_its_network_is_back(three: Three) -> None:
    former = three.primary("h3")
    host = three.host_of(former)
    other, third = (each for each in ("h1", "h2", "h3") if each != host)
    three.zodbrepl(host, "synchronous", "0", *REASON)  # else it takes nothing while isolated
    with Counted(three, host, 2 * 10**6) as inside, Counted(three, other, 3 * 10**6) as outside:
        three.lab.network.isolate(host)
        assert "acknowledged commits that no other node has" in fail_over(three, other)
        inside.see_more()
        outside.see_more()
        three.lab.network.heal()
        assert wait_until(partial(is_stopped, three, host, former), later())
        three.zodbrepl(third, "rejoin", former, "--reason", "its network is back")
        outside.see_more()
        inside.see_more()
    assert exported_numbers(three) & set(inside.acknowledged)
    account_for(three, inside, outside)


def is_stopped(three: Three, host: str, node: str) -> bool:
    """Return True if a host sees that no server of a node answers: it was fenced."""
    found = next(each for each in three.status(host)["nodes"] if each["name"] == node)
    return found["actual_role"] is None
