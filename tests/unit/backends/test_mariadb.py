"""What MariaDB's nodes and clients are told, and what is made of what servers say."""

from __future__ import annotations

import concurrent.futures
import configparser
import dataclasses
import errno
import io
import os
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ZConfig.schemaless
from zope.interface.verify import verifyObject

from indico_zodbrepl.backends import IBackend, backend_of, relstorage
from indico_zodbrepl.backends.acknowledging import show
from indico_zodbrepl.backends.mariadb import comparing, config, received, sql, status
from indico_zodbrepl.backends.mariadb import server as programs
from indico_zodbrepl.backends.mariadb.server import mark_filled, prepare
from indico_zodbrepl.backends.mariadb.status import Findings
from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Synchronous
from indico_zodbrepl.cluster.settings import MariaDBSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.answers import AckState, Level, ServerRole

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster-relstorage-mariadb.conf"
PASSWORDS = {"indico": "one", config.MONITOR_USER: "two", config.REPLICATION_USER: "three"}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """The example: a primary a, a secondary b, semi-synchronous."""
    return load(EXAMPLE, tmp_path)


def leading(cluster: Cluster) -> NodeState:
    return NodeState(cluster.name, "a", Role.PRIMARY, None, epoch=3)


def following(cluster: Cluster) -> NodeState:
    return NodeState(cluster.name, "b", Role.SECONDARY, "a", epoch=3)


def with_settings(cluster: Cluster, **values: Any) -> Cluster:
    return dataclasses.replace(
        cluster, settings=dataclasses.replace(config.settings_of(cluster), **values)
    )


def options(text: str) -> dict[str, str | None]:
    """The server's options; an !include has none."""
    parsed = configparser.ConfigParser(allow_no_value=True, interpolation=None)
    parsed.read_string(text)
    return {key: value for key, value in parsed["mariadbd"].items() if not key.startswith("!")}


def statements(
    cluster: Cluster, state: NodeState, *, filled: bool = True, locked: bool = False
) -> list[str]:
    return config.init_sql(cluster, state, PASSWORDS, filled=filled, locked=locked).splitlines()


def sections(parsed: Any) -> Iterator[Any]:
    for section in parsed.sections:
        yield section
        yield from sections(section)


def section(text: str, kind: str) -> dict[str, list[str]]:
    """A section of a client's file."""
    parsed = ZConfig.schemaless.loadConfigFile(io.StringIO(text))
    return next(dict(each) for each in sections(parsed) if each.type == kind)


def test_it_provides_the_interface_of_backends(cluster: Cluster) -> None:
    assert verifyObject(IBackend, backend_of(cluster))


# What servers read


@pytest.mark.parametrize("role", [leading, following])
def test_each_server_starts_without_taking_writes(cluster: Cluster, role: Any) -> None:
    """Its first statements end that for a primary; when they fail it stays so."""
    found = options(config.my_cnf(cluster, role(cluster)))
    assert ("ON", None) == (found["read-only"], found["skip-slave-start"])


def test_a_servers_options_are_for_its_own_address_and_hold_no_password(cluster: Cluster) -> None:
    text = config.my_cnf(cluster, following(cluster))
    found = options(text)
    assert ("127.0.0.1", "8162") == (found["bind-address"], found["port"])
    assert not [word for word in PASSWORDS.values() if word in text.split()]


def test_only_a_primarys_commits_wait_for_a_follower(cluster: Cluster) -> None:
    """Those that a secondary repeats would wait for a follower of its own, in vain."""
    waits = [
        options(config.my_cnf(each, role(each)))["rpl-semi-sync-master-enabled"]
        for each in (cluster, dataclasses.replace(cluster, synchronous=Synchronous()))
        for role in (leading, following)
    ]
    assert ["ON", "OFF", "OFF", "OFF"] == waits


@pytest.mark.parametrize("role", [leading, following])
@pytest.mark.parametrize("synchronous", [True, False])
def test_no_server_drops_what_a_kill_left_in_its_log(
    cluster: Cluster, role: Any, *, synchronous: bool
) -> None:
    """It starts as one that acknowledges nothing, and is told afterwards whether it does."""
    cluster = dataclasses.replace(cluster, synchronous=Synchronous(int(synchronous)))
    found = options(config.my_cnf(cluster, role(cluster)))
    assert ("MASTER", "OFF") == (found["init-rpl-role"], found["rpl-semi-sync-slave-enabled"])
    word = "ON" if synchronous else "OFF"
    said = statements(cluster, role(cluster))
    acknowledges = f"SET GLOBAL rpl_semi_sync_slave_enabled = {word};"
    assert acknowledges in said
    assert "START SLAVE;" not in said[: said.index(acknowledges)]


def test_a_primary_takes_writes_as_the_last_of_its_first_statements(cluster: Cluster) -> None:
    found = statements(cluster, leading(cluster))
    assert "SET SESSION sql_log_bin = 0;" == found[0]
    assert ["RESET SLAVE ALL;", "SET GLOBAL read_only = 0;"] == found[-2:]


def test_a_follower_goes_on_from_what_it_has_and_never_takes_writes(cluster: Cluster) -> None:
    found = statements(cluster, following(cluster))
    assert "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_current_pos;" == found[-3]
    assert "MASTER_PORT = 8161" in found[-2]
    assert "MASTER_USE_GTID = slave_pos" in found[-2]
    assert "START SLAVE;" == found[-1]
    assert not [each for each in found if "read_only" in each]


def test_a_follower_without_a_whole_copy_follows_nobody(cluster: Cluster) -> None:
    found = statements(cluster, following(cluster), filled=False)
    assert not [each for each in found if "MASTER TO" in each or "SLAVE" in each.split()[:2]]


@pytest.mark.parametrize(("locked", "word"), [(True, "LOCK"), (False, "UNLOCK")])
def test_a_server_that_may_have_diverged_follows_nobody_and_clients_are_kept_from_it(
    cluster: Cluster, word: str, *, locked: bool
) -> None:
    found = statements(cluster, following(cluster), locked=locked)
    assert f"ALTER USER 'indico'@'%' ACCOUNT {word};" in found
    assert locked is ("START SLAVE;" not in found)


def test_a_server_knows_whose_it_is_and_its_epoch(cluster: Cluster) -> None:
    (found,) = [each for each in statements(cluster, leading(cluster)) if "REPLACE" in each]
    assert found.endswith(f"VALUES (1, '{cluster.name}', 'a', 'primary', 3);")


def test_an_underscore_in_a_databases_name_is_no_wildcard(cluster: Cluster) -> None:
    found = statements(with_settings(cluster, database="in_dico"), leading(cluster))
    assert r"GRANT ALL ON `in\_dico`.* TO 'indico'@'%';" in found


def test_indico_may_ask_for_the_sizes_of_files(cluster: Cluster) -> None:
    assert "GRANT PROCESS ON *.* TO 'indico'@'%';" in statements(cluster, leading(cluster))


def test_servers_of_a_cluster_have_different_ids_which_stay(cluster: Cluster) -> None:
    ids = [config.server_id(cluster, node) for node in cluster.nodes]
    assert len(set(ids)) == len(ids)
    assert ids == [config.server_id(cluster, node) for node in cluster.nodes]


def test_a_socket_has_a_path_that_can_be_bound(cluster: Cluster) -> None:
    node = dataclasses.replace(cluster.node("a"), data_directory=Path("/" + "long/" * 30))
    assert len(bytes(config.server_socket(node))) <= config.SOCKET_PATH_LIMIT


def test_a_socket_that_a_killed_server_left_has_no_server(cluster: Cluster) -> None:
    node = cluster.node("a")
    path = config.server_socket(node)
    path.parent.mkdir(parents=True)
    assert not sql.listens(node)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert sql.listens(node)
    assert path.exists()
    assert not sql.listens(node)


# What clients read


def test_clients_make_no_tables_and_come_back_when_they_saw_more(cluster: Cluster) -> None:
    found = section(config.client_files(cluster)[Layout(cluster).zodb_conf], "relstorage")
    assert ["false"] == found["create-schema"]
    assert ["true"] == found["revert_when_stale"]
    assert [str(relstorage.servers_file(cluster))] == found["replica-conf"]


def test_no_clients_file_holds_a_password(cluster: Cluster) -> None:
    """They are for everybody to read; the password is in a file that they name."""
    for text in config.client_files(cluster).values():
        found = section(text, "mariadb")
        assert "passwd" not in found
        assert [str(config.client_cnf(cluster, "indico"))] == found["read_default_file"]


def test_a_nodes_own_file_is_for_reading_alone(cluster: Cluster) -> None:
    text = config.client_files(cluster)[Layout(cluster).node_zodb_conf(cluster.node("b"))]
    assert ["true"] == section(text, "relstorage")["read-only"]
    assert ["8162"] == section(text, "mariadb")["port"]


def test_the_primary_is_first_among_the_servers(cluster: Cluster) -> None:
    lines = relstorage.replica_conf(cluster, "b").splitlines()
    assert ["127.0.0.1:8162", "127.0.0.1:8161"] == lines[1:]


# Passwords and programs


def test_a_password_is_made_once_for_its_owner_alone(cluster: Cluster) -> None:
    password = sql.ensure(cluster, "indico")
    assert len(password) > 20
    assert password == sql.ensure(cluster, "indico") == sql.of(cluster, "indico")
    mode = config.client_cnf(cluster, "indico").stat().st_mode
    assert 0o600 == stat.S_IMODE(mode)


def test_nodes_that_start_at_the_same_time_have_the_same_password(cluster: Cluster) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as together:
        made = set(together.map(lambda _: sql.ensure(cluster, "indico"), range(4)))
    assert {sql.of(cluster, "indico")} == made


def test_the_sites_own_password_counts_also_when_it_changes(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "password"
    given = with_settings(cluster, password_file=path)
    for password in ("first", "second"):
        path.write_text(password + "\n")
        path.chmod(0o600)
        sql.ensure(given, "indico")
        assert password == sql.of(given, "indico")


@pytest.mark.parametrize(
    "text", ["", "two\nlines\n", "a blank\n", "quote'\n", 'quote"\n', "a#\n", "back\\slash\n"]
)
def test_a_password_that_files_or_sql_would_bend_is_refused(
    cluster: Cluster, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "password"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(OperatorError) as refused:
        sql.ensure(with_settings(cluster, password_file=path), "indico")
    assert ExitCode.REFUSED is refused.value.exit_code


def test_missing_programs_are_named_with_their_package(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as refused:
        programs.find(MariaDBSettings(bin_directory=tmp_path))
    assert ExitCode.NOT_INSTALLED is refused.value.exit_code
    assert "mariadbd" in refused.value.notice
    assert "apt-get install mariadb-server" in refused.value.hint


def test_programs_of_a_folder_of_the_sites_own_are_found(tmp_path: Path) -> None:
    for name in programs.NEEDED:
        (tmp_path / name).touch(mode=0o755)
    found = programs.find(MariaDBSettings(bin_directory=tmp_path))
    assert str(tmp_path / "mariadbd") == found.path(programs.SERVER)


def test_names_that_the_cluster_needs_for_itself_are_refused(cluster: Cluster) -> None:
    for values in ({"user": config.MONITOR_USER}, {"database": config.OWN_DATABASE}):
        wrong = with_settings(cluster, **values)
        with pytest.raises(OperatorError) as refused:
            backend_of(wrong).check(wrong, Installation(EXAMPLE.parents[1]))
        assert ExitCode.BAD_CONFIG is refused.value.exit_code


def test_what_a_server_executes_first_is_for_its_owner_alone(cluster: Cluster) -> None:
    """It holds passwords.  The data are taken for made here."""
    config.data_folder(cluster.node("a")).mkdir(parents=True)
    assert [] == list(prepare(cluster, leading(cluster)))
    path = config.init_sql_file(cluster, cluster.node("a"))
    assert sql.ensure(cluster, "indico") in path.read_text()
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)


def test_a_primary_whose_data_are_gone_does_not_start_empty(cluster: Cluster) -> None:
    """Its disk may not be mounted; Indico would find an empty database."""
    node = cluster.node("a")
    config.data_folder(node).mkdir(parents=True)
    mark_filled(cluster, node)
    list(prepare(cluster, leading(cluster)))
    shutil.rmtree(config.data_folder(node))
    with pytest.raises(OperatorError) as refused:
        list(prepare(cluster, leading(cluster)))
    assert ExitCode.REFUSED is refused.value.exit_code
    assert "the data of node a are gone" == refused.value.notice


@pytest.mark.parametrize(
    ("why", "code"),
    [
        (errno.EIO, ExitCode.FAILED),
        (errno.ENOSPC, ExitCode.FAILED),
        (errno.EROFS, ExitCode.REFUSED),
    ],
)
def test_a_start_is_repeated_whose_disk_is_full_or_fails(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, why: int, code: ExitCode
) -> None:
    """An error while a file is synced names no file."""

    def failing(*_arguments: object) -> None:
        raise OSError(why, os.strerror(why))

    node = cluster.node("a")
    config.data_folder(node).mkdir(parents=True)
    monkeypatch.setattr(received, "record", failing)
    with pytest.raises(OperatorError) as failed:
        list(prepare(cluster, leading(cluster)))
    assert code is failed.value.exit_code
    assert f"{node.data_directory}: {os.strerror(why)}" == failed.value.detail


def test_a_primary_that_is_to_follow_lets_no_client_in_at_first(cluster: Cluster) -> None:
    config.data_folder(cluster.node("a")).mkdir(parents=True)
    list(prepare(cluster, leading(cluster)))
    list(prepare(cluster, NodeState(cluster.name, "a", Role.SECONDARY, "b", epoch=4)))
    assert "ACCOUNT LOCK;" in config.init_sql_file(cluster, cluster.node("a")).read_text()


# What servers say


RUNNING = {
    "Master_Host": "127.0.0.1",
    "Master_Port": 8161,
    "Slave_IO_Running": "Yes",
    "Slave_SQL_Running": "Yes",
    "Slave_IO_State": "Waiting for master to send event",
    "Slave_SQL_Running_State": "Slave has read all relay log",
    "Seconds_Behind_Master": 0,
    "Gtid_IO_Pos": "0-1-7",
    "Last_IO_Errno": 0,
    "Last_IO_Error": "",
    "Last_SQL_Errno": 0,
    "Last_SQL_Error": "",
}
OWN = {"cluster": "demo-mariadb", "epoch": 3}
A, B = OWN | {"node": "a", "role": "primary"}, OWN | {"node": "b", "role": "secondary"}


def said(
    *,
    read_only: bool,
    own: dict[str, object] | None,
    upstream: dict[str, object] | None,
    semi_sync: str = "ON",
    waits: int = 1,
    denied: tuple[str, ...] = (),
) -> Findings:
    return Findings(
        {
            "version": "10.11.19-MariaDB",
            "read_only": int(read_only),
            "gtid_binlog_pos": "0-1-7",
            "gtid_slave_pos": "0-1-7",
            "rpl_semi_sync_master_enabled": waits,
            "rpl_semi_sync_slave_enabled": 1,
            "rpl_semi_sync_master_timeout": 10000,
        },
        upstream,
        {
            "rpl_semi_sync_master_status": semi_sync,
            "rpl_semi_sync_slave_status": "ON",
            "rpl_semi_sync_master_clients": "1",
            "rpl_semi_sync_master_no_tx": "0",
        },
        own,
        (),
        4,
        99,
        1000,
        denied,
    )


def test_a_primary_that_is_as_it_should_be_has_no_problem(cluster: Cluster) -> None:
    found = status.answer(cluster, cluster.node("a"), said(read_only=False, own=A, upstream=None))
    assert found.replication is not None
    assert (ServerRole.PRIMARY, False, 3) == (
        found.replication.role,
        found.replication.read_only,
        found.replication.epoch,
    )
    assert () == found.problems


def test_a_secondary_that_is_as_it_should_be_has_no_problem(cluster: Cluster) -> None:
    found = status.answer(cluster, cluster.node("b"), said(read_only=True, own=B, upstream=RUNNING))
    assert found.replication is not None
    assert (ServerRole.SECONDARY, True, "127.0.0.1:8161") == (
        found.replication.role,
        found.replication.connected,
        found.replication.upstream,
    )
    assert () == found.problems


def test_a_secondary_that_takes_writes_is_reported_as_a_primary(cluster: Cluster) -> None:
    found = status.answer(
        cluster, cluster.node("b"), said(read_only=False, own=B, upstream=RUNNING)
    )
    assert found.replication is not None
    assert ServerRole.PRIMARY is found.replication.role


def test_a_primary_that_takes_no_writes_is_still_one(cluster: Cluster) -> None:
    found = status.answer(cluster, cluster.node("a"), said(read_only=True, own=A, upstream=None))
    assert found.replication is not None
    assert (ServerRole.PRIMARY, True) == (found.replication.role, found.replication.read_only)


def test_a_server_that_was_not_started_here_is_reported(cluster: Cluster) -> None:
    found = status.answer(
        cluster, cluster.node("a"), said(read_only=False, own=None, upstream=None)
    )
    assert found.replication is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {
                "Slave_SQL_Running": "No",
                "Last_SQL_Errno": 1062,
                "Last_SQL_Error": "Duplicate entry",
            },
            "node b applies no transactions, and it goes on receiving",
        ),
        (
            {"Slave_SQL_Running": "No", "Slave_IO_Running": "No"},
            "node b applies no transactions, and it does not receive either",
        ),
        ({"Slave_IO_Running": "No"}, "node b applies what it has, but receives nothing"),
        (
            {"Slave_IO_Running": "No", "Last_IO_Errno": 1236, "Last_IO_Error": "not in the binlog"},
            "node b needs to be cloned",
        ),
    ],
)
def test_one_thread_that_stands_still_is_critical_whatever_the_other_says(
    cluster: Cluster, changes: dict[str, object], text: str
) -> None:
    found = status.answer(
        cluster, cluster.node("b"), said(read_only=True, own=B, upstream=RUNNING | changes)
    )
    assert found.replication is not None
    assert found.replication.connected is False
    (problem,) = found.problems
    assert (Level.CRITICAL, text) == (problem.level, problem.text)
    for error in (changes.get("Last_SQL_Error"), changes.get("Last_IO_Error")):
        assert str(error or "") in problem.detail


def test_a_follower_that_still_tries_to_connect_is_not_told_as_stopped(cluster: Cluster) -> None:
    """That its primary is away is told by the primary."""
    found = status.answer(
        cluster,
        cluster.node("b"),
        said(
            read_only=True,
            own=B,
            upstream=RUNNING | {"Slave_IO_Running": "Connecting", "Last_IO_Errno": 2003},
        ),
    )
    assert found.replication is not None
    assert (False, ()) == (found.replication.connected, found.problems)


def test_a_secondary_without_a_copy_says_so(cluster: Cluster) -> None:
    found = status.answer(cluster, cluster.node("b"), said(read_only=True, own=B, upstream=None))
    assert ["node b follows nobody: it has no copy of the database"] == [
        problem.text for problem in found.problems
    ]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"semi_sync": "OFF"}, "commits on node a wait for no follower"),
        ({"waits": 0}, "node a does not replicate semi-synchronously"),
    ],
)
def test_commits_that_wait_for_nobody_though_they_should_are_reported(
    cluster: Cluster, values: dict[str, Any], text: str
) -> None:
    (problem,) = status.answer(
        cluster, cluster.node("a"), said(read_only=False, own=A, upstream=None, **values)
    ).problems
    assert (Level.WARNING, text) == (problem.level, problem.text)
    asynchronous = dataclasses.replace(cluster, synchronous=Synchronous())
    assert (
        ()
        == status.answer(
            asynchronous, cluster.node("a"), said(read_only=False, own=A, upstream=None, **values)
        ).problems
    )


def test_a_primary_that_goes_on_alone_is_reported(cluster: Cluster) -> None:
    alone = dataclasses.replace(
        said(read_only=False, own=A, upstream=None),
        commits=show(AckState.ALONE, cluster.synchronous, time.time()),
    )
    found = status.answer(cluster, cluster.node("a"), alone)
    assert ["commits on node a wait for no follower"] == [each.text for each in found.problems]
    assert found.replication is not None
    assert found.replication.acknowledging is not None
    assert found.replication.acknowledging.state is AckState.ALONE


def test_what_somebody_elses_server_hides_is_reported_with_the_cure(cluster: Cluster) -> None:
    node = dataclasses.replace(cluster.node("a"), managed=False)
    found = status.answer(
        cluster, node, said(read_only=False, own=None, upstream=None, denied=("SLAVE MONITOR",))
    )
    assert found.replication is not None
    assert found.replication.epoch is None
    (problem,) = found.problems
    assert "SLAVE MONITOR" in problem.detail
    assert "GRANT SLAVE MONITOR" in problem.hint


@pytest.mark.parametrize(
    ("state", "position"),
    [
        ("", ""),
        ("0-1-9\n", "0-1-9"),
        ("0-2-12\n0-1-9\n", "0-2-12"),
        ("0-1-9\n0-2-12\n1-1-3\n", "0-2-12,1-1-3"),
    ],
)
def test_where_a_server_ended_is_the_last_transaction_of_each_domain(
    state: str, position: str
) -> None:
    assert position == comparing.last_positions(state)
