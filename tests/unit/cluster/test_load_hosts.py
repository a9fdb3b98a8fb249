"""Host sections of a cluster file: where programs run, and what is refused."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest
from cluster_texts import GOOD, load_text, refusal

from indico_zodbrepl.cluster import Cluster, rendering
from indico_zodbrepl.cluster.installation import Installation

HOSTS = """\
name three
backend zrs
var-directory /srv/three/var

<host one>
  address 10.77.0.11
</host>
<host two>
  address 10.77.0.12
  agent-port 8301
</host>

<node a>
  host one
  storage-port 8111
  replication-port 8112
  data-directory /srv/three/a
  role primary
</node>
<node b>
  host two
  storage-port 8111
  replication-port 8112
  data-directory /srv/three/b
  role secondary
  upstream a
</node>

<indico i1>
  host one
  port 8121
</indico>
<indico i2>
  host two
  port 8121
</indico>

<admin>
  host two
  port 8131
</admin>
<watch>
  host two
  port 8132
</watch>
"""


def seen_from(cluster: Cluster, host: str | None) -> Cluster:
    return dataclasses.replace(cluster, here=host)


def test_a_program_listens_on_the_inner_address_of_its_host(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, HOSTS)
    assert "127.77.0.11:8111" == str(cluster.node("a").storage_address)
    assert "127.77.0.12:8121" == str(cluster.indico[1].address)
    assert "127.77.0.12:8132" == str(cluster.watch and cluster.watch.address)
    assert "10.77.0.12:8301" == str(cluster.host("two").agent_address)


def test_without_encryption_a_program_listens_on_the_address_of_its_host(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, HOSTS.replace("backend zrs", "backend zrs\nencryption none"))
    assert "10.77.0.11:8111" == str(cluster.node("a").storage_address)
    assert not cluster.encrypted


def test_a_host_runs_its_own_programs_and_the_tunnel(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, HOSTS)
    on_one = seen_from(cluster, "one").program_names()
    assert ["tunnel-one", "node-a", "indico-i1", "scheduler-i1"] == on_one
    on_two = seen_from(cluster, "two").program_names()
    assert ["tunnel-two", "node-b", "indico-i2", "scheduler-i2", "admin", "watch"] == on_two


def test_one_scheduler_runs_on_each_host_that_may(tmp_path: Path) -> None:
    def chosen(text: str) -> list[bool]:
        return [each.scheduler for each in load_text(tmp_path, text).indico]

    more = "<indico i3>\n  host two\n  port 8122\n</indico>\n"
    assert [True, True, False] == chosen(HOSTS + more)
    without = HOSTS.replace("<indico i2>\n", "<indico i2>\n  scheduler no\n")
    assert [True, False, True] == chosen(without + more)
    only = HOSTS.replace("<indico i2>\n", "<indico i2>\n  scheduler yes\n")
    assert [False, True, False] == chosen(only + more)
    twice = only + more.replace("<indico i3>\n", "<indico i3>\n  scheduler yes\n")
    (line,) = refusal(tmp_path, twice)
    assert line.endswith("host two has one scheduler, and it runs beside instance i2 already")


def test_the_schedulers_of_several_hosts_know_each_other(tmp_path: Path) -> None:
    cluster = seen_from(load_text(tmp_path, HOSTS), "one")
    program = rendering.scheduler_program(cluster, Installation(tmp_path), cluster.indico[0])
    command = " ".join(program.command)
    assert "--host one --takeover 120" in command
    assert "--peer two=10.77.0.12:8301 --node a=127.77.0.11:8111 --node b=" in command


def test_a_machine_that_is_no_host_of_the_cluster_runs_nothing(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, HOSTS)
    assert None is cluster.here
    assert [] == cluster.program_names()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "<node b>\n  host two",
            "<node b>\n  host tow",
            "21: tow is no <host> of this cluster (known: one, two)",
            id="unknown host",
        ),
        pytest.param(
            "<indico i2>\n  host two\n",
            "<indico i2>\n",
            "33: 127.0.0.1 is no <host> of this cluster (known: one, two)",
            id="no host",
        ),
        pytest.param(
            "address 10.77.0.12",
            "address 127.0.0.1",
            "9: 127.0.0.1 is no address at which other hosts reach two",
            id="loopback",
        ),
        pytest.param(
            "address 10.77.0.12",
            "address two.example.org",
            "9: 'two.example.org' is not an IPv4 address; a name would need a resolver during a "
            "failover",
            id="name instead of address",
        ),
        pytest.param(
            "address 10.77.0.12",
            "address 8.8.8.8",
            "9: 8.8.8.8 is a public address; to use it set 'allow-public-addresses true'",
            id="public address",
        ),
        pytest.param(
            "address 10.77.0.12",
            "address 10.77.0.11",
            "9: host one has 10.77.0.11 already, at {file}:6",
            id="same address",
        ),
        pytest.param(
            "address 10.77.0.12",
            "address 192.77.0.11",
            "9: 192.77.0.11 is a public address; to use it set 'allow-public-addresses true'",
            id="public address of another network",
        ),
        pytest.param(
            "  port 8131",
            "  port 8301",
            "40: port 8301 is the agent's of host two, at {file}:10",
            id="port of the agent",
        ),
        pytest.param(
            "  port 8131",
            "  port 8121",
            "40: port 8121 is the port of indico i2 already, at {file}:35",
            id="port used twice on a host",
        ),
    ],
)
def test_a_mistake_about_hosts_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    found = refusal(tmp_path, HOSTS.replace(old, new))
    assert f"cluster.conf:{expected.format(file='cluster.conf')}" in found


def test_a_public_address_needs_encryption(tmp_path: Path) -> None:
    text = HOSTS.replace("10.77.0.12", "8.8.8.8").replace(
        "backend zrs", "backend zrs\nencryption none\nallow-public-addresses true"
    )
    (line,) = refusal(tmp_path, text)
    assert line.endswith("data and commands would cross a public network in clear")


def test_encryption_is_for_clusters_of_several_hosts(tmp_path: Path) -> None:
    (line,) = refusal(tmp_path, GOOD.replace("backend zrs", "backend zrs\nencryption none"))
    assert "cluster.conf:3: encryption is for clusters with <host> sections" == line


def test_a_backend_whose_data_clients_open_as_a_file_stays_on_one_host(tmp_path: Path) -> None:
    text = HOSTS[: HOSTS.index("<node b>")] + HOSTS[HOSTS.index("<indico i2>") :]
    text = text.replace("backend zrs", "backend relstorage-sqlite").replace(
        "  storage-port 8111\n  replication-port 8112\n", ""
    )
    lines = refusal(tmp_path, text)
    assert [line.partition(" only: ")[2] for line in lines] == [
        f"{words} has to be on host one, because it opens the data of node a as a file; "
        "or use the backend zeo or zrs"
        for words in ("Indico i2", "the admin page", "the monitor")
    ]


def test_two_hosts_with_the_same_inner_address_are_refused(tmp_path: Path) -> None:
    text = HOSTS.replace("10.77.0.11", "10.168.0.5").replace("10.77.0.12", "192.168.0.5")
    found = refusal(tmp_path, text)
    expected = "host one has the last three numbers of 192.168.0.5 already, at cluster.conf:6"
    assert f"cluster.conf:9: {expected}" in found


def test_a_folder_of_backups_is_on_a_host_or_on_each(tmp_path: Path) -> None:
    named = load_text(tmp_path, HOSTS + "backup-directory two:/backup\n")
    assert ("two", Path("/backup")) == (named.backup_host, named.backup_directory)
    own = [dataclasses.replace(named, here=here).own_backup_directory for here in ("one", "two")]
    assert [None, Path("/backup")] == own
    each = load_text(tmp_path, HOSTS + "backup-directory /backup\n")
    assert Path("/backup") == dataclasses.replace(each, here="one").own_backup_directory


def test_backups_on_a_schedule_need_the_host_whose_timer_makes_them(tmp_path: Path) -> None:
    text = HOSTS + "backup-time 03:00\nbackup-directory"
    assert datetime.time(3) == load_text(tmp_path, f"{text} two:/backup\n").backup_time
    (found,) = refusal(tmp_path, f"{text} /backup\n")
    assert found == (
        f"cluster.conf:{len(HOSTS.splitlines()) + 1}: backup-time needs the host in "
        "backup-directory, such as one:/backup: the timer of that host makes the backup"
    )
