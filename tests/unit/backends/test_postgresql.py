"""What PostgreSQL's servers and clients are told, as text; where its programs are found."""

from __future__ import annotations

import dataclasses
import io
import time
from pathlib import Path
from typing import Any

import pytest
import ZConfig.schemaless
from psycopg import conninfo

from indico_zodbrepl.backends import backend_of, relstorage
from indico_zodbrepl.backends.postgresql import config, programs, replication, sql, status
from indico_zodbrepl.backends.postgresql.programs import NEEDED, Identity, Programs
from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Synchronous
from indico_zodbrepl.cluster.settings import PostgreSQLSettings
from indico_zodbrepl.errors import ExitCode, OperatorError

HOME = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return load(HOME / "etc" / "cluster-relstorage-postgresql.conf", HOME)


def primary(cluster: Cluster) -> NodeState:
    return NodeState(cluster.name, "a", Role.PRIMARY, None, 3)


def standby(cluster: Cluster) -> NodeState:
    return NodeState(cluster.name, "b", Role.SECONDARY, "a", 3)


def server_conf(cluster: Cluster, state: NodeState) -> dict[str, str]:
    """postgresql.conf as the server reads it: the last value of a name counts."""
    path = config.data_folder(cluster.node(state.node)) / "postgresql.conf"
    text = config.server_files(cluster, state)[path]
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}


def with_settings(cluster: Cluster, **changes: Any) -> Cluster:
    settings = config.settings_of(cluster)
    return dataclasses.replace(cluster, settings=dataclasses.replace(settings, **changes))


def test_a_standby_that_could_not_be_attached_is_told_again(tmp_path: Path) -> None:
    """Its file names no settings already, but its server has not read that."""
    loaded = load(HOME / "etc" / "cluster-relstorage-postgresql.conf", tmp_path)
    down = dataclasses.replace(loaded.node("b"), storage_port=1)
    cluster = dataclasses.replace(loaded, nodes=(loaded.node("a"), down))
    path = config.data_folder(down) / config.DETACHED_CONF
    path.parent.mkdir(parents=True)
    path.write_text("primary_conninfo = ''\n")
    follows = NodeState(cluster.name, "b", Role.SECONDARY, "a", 2)
    for _time in range(2):
        with pytest.raises(OperatorError, match="did not execute the order"):
            replication.attach(cluster, follows, time.monotonic() + 1.0)


def test_a_server_listens_on_its_nodes_host_alone_and_on_no_unix_socket(cluster: Cluster) -> None:
    found = server_conf(cluster, primary(cluster))
    assert ("'127.0.0.1'", "8151", "''") == (
        found["listen_addresses"],
        found["port"],
        found["unix_socket_directories"],
    )


def test_a_server_does_not_compile_statements(cluster: Cluster) -> None:
    assert "off" == server_conf(cluster, primary(cluster))["jit"]


def test_a_server_says_whose_it_is_and_in_which_epoch(cluster: Cluster) -> None:
    found = server_conf(cluster, standby(cluster))
    assert (f"'{cluster.name}'", "'b'", "'3'") == (
        found["zodbrepl.cluster"],
        found["zodbrepl.node"],
        found["zodbrepl.epoch"],
    )


def test_a_standby_follows_its_upstream_and_its_slot(cluster: Cluster) -> None:
    found = server_conf(cluster, standby(cluster))
    told = conninfo.conninfo_to_dict(found["primary_conninfo"][1:-1].replace("''", "'"))
    assert ("127.0.0.1", "8151", "zodbrepl_replication", "b") == (
        told["host"],
        told["port"],
        told["user"],
        told["application_name"],
    )
    assert "password" not in told
    assert "'zodbrepl_b'" == found["primary_slot_name"]


def test_a_primary_follows_nobody_and_can_end_a_recovery(cluster: Cluster) -> None:
    found = server_conf(cluster, primary(cluster))
    assert ("primary_conninfo" in found, found["restore_command"]) == (False, "'false'")


def test_commits_wait_for_the_others_only_when_told_to(cluster: Cluster) -> None:
    node = cluster.node("a")
    assert "names = ''" in config.synchronous_conf(cluster, node)
    assert "names = 'ANY 1 (\"b\")'" in config.synchronous_conf(
        dataclasses.replace(cluster, synchronous=Synchronous(1)), node
    )
    alone = dataclasses.replace(cluster, synchronous=Synchronous(1), nodes=(node,))
    assert "names = ''" in config.synchronous_conf(alone, node)


def test_everybody_shows_a_password(cluster: Cluster) -> None:
    path = config.data_folder(cluster.node("a")) / "pg_hba.conf"
    rules = [
        line.split()
        for line in config.server_files(cluster, primary(cluster))[path].splitlines()
        if not line.startswith("#")
    ]
    assert {("host", "scram-sha-256")} == {(rule[0], rule[-1]) for rule in rules}
    assert ["host", "indico", "indico", "all", "scram-sha-256"] in rules


def test_clients_take_the_primary_first(cluster: Cluster) -> None:
    lines = relstorage.replica_conf(cluster, "b").splitlines()
    assert ["127.0.0.1:8152", "127.0.0.1:8151"] == [
        line for line in lines if not line.startswith("#")
    ]


def test_clients_of_a_host_take_its_own_server_before_those_of_other_hosts(tmp_path: Path) -> None:
    lines = ["name test", "backend relstorage-postgresql", f"var-directory {tmp_path}/var"]
    for number, name in enumerate("abc", 1):
        lines += [f"<host h{number}>", f"  address 10.77.0.1{number}", "</host>"]
        lines += [f"<node {name}>", f"  host h{number}", f"  storage-port 820{number}"]
        role = ["role primary"] if name == "a" else ["role secondary", "upstream a"]
        lines += [f"  data-directory {tmp_path}/{name}", *role, "</node>"]
    path = tmp_path / "cluster.conf"
    path.write_text("\n".join([*lines, "<admin>", "host h1", "port 8131", "</admin>", ""]))
    cluster = dataclasses.replace(load(path, tmp_path), here="h3")
    lines = relstorage.replica_conf(cluster, "b").splitlines()[1:]
    addresses = {name: str(cluster.node(name).storage_address) for name in "abc"}
    assert [addresses[each] for each in "bca"] == lines


@pytest.mark.parametrize("history", [True, False])
def test_clients_make_no_tables_and_go_back_when_their_server_knows_less(
    cluster: Cluster, history: bool
) -> None:
    text = config.client_files(with_settings(cluster, keep_history=history))[
        Layout(cluster).zodb_conf
    ]
    for line in (
        "create-schema false",
        "revert_when_stale true",
        f"keep-history {str(history).lower()}",
        f"replica-conf {relstorage.servers_file(cluster)}",
    ):
        assert f"    {line}\n" in text


def test_the_configuration_of_clients_holds_no_password(cluster: Cluster) -> None:
    for text in config.client_files(cluster).values():
        (dsn,) = [line.split("dsn ", 1)[1] for line in text.splitlines() if "dsn " in line]
        told = conninfo.conninfo_to_dict(dsn)
        assert ("password" in told, told["passfile"]) == (
            False,
            str(config.passfile(cluster, "indico")),
        )


def test_one_node_alone_is_read_and_never_written(cluster: Cluster) -> None:
    files = config.client_files(cluster)
    for node in cluster.nodes:
        text = files[Layout(cluster).node_zodb_conf(node)]
        assert "read-only true" in text
        assert "replica-conf" not in text
        assert f"port='{node.storage_port}'" in text


def test_only_the_maker_of_the_tables_makes_tables(cluster: Cluster) -> None:
    makers = [
        path for path, text in config.client_files(cluster).items() if "create-schema true" in text
    ]
    assert [relstorage.schema_conf(cluster)] == makers


def test_a_server_of_somebody_elses_has_no_files_and_no_program(cluster: Cluster) -> None:
    node = dataclasses.replace(cluster.node("a"), managed=False)
    foreign = dataclasses.replace(cluster, nodes=(node, cluster.node("b")))
    backend = backend_of(foreign)
    assert {} == backend.node_files(foreign, primary(foreign))
    assert () == backend.programs(foreign, Installation(HOME), node)


def test_the_server_is_asked_to_end_by_the_signal_that_ends_sessions(cluster: Cluster) -> None:
    (program,) = backend_of(cluster).programs(cluster, Installation(HOME), cluster.node("a"))
    assert "INT" == program.stop_signal


def test_names_of_the_clusters_own_users_are_refused(cluster: Cluster) -> None:
    with pytest.raises(OperatorError) as caught:
        backend_of(cluster).check(with_settings(cluster, user="zodbrepl"), Installation(HOME))
    assert ExitCode.BAD_CONFIG is caught.value.exit_code


def test_an_address_that_relstorage_can_not_write_is_refused(cluster: Cluster) -> None:
    node = dataclasses.replace(cluster.node("a"), host="::1")
    with pytest.raises(OperatorError, match="can't have the address ::1"):
        backend_of(cluster).check(dataclasses.replace(cluster, nodes=(node,)), Installation(HOME))


def folder_with(folder: Path, *found: str) -> Path:
    folder.mkdir(parents=True)
    for name in found:
        (folder / name).write_text("")
        (folder / name).chmod(0o755)
    return folder


def test_the_newest_programs_are_taken_unless_the_data_is_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("9", "15", "17"):
        folder_with(tmp_path / version / "bin", *NEEDED)
    monkeypatch.setattr(programs, "DEBIAN_FOLDERS", tmp_path)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert tmp_path / "17" / "bin" == programs.find(PostgreSQLSettings()).folder
    assert tmp_path / "15" / "bin" == programs.find(PostgreSQLSettings(), "15").folder
    with pytest.raises(OperatorError, match="PostgreSQL 16") as caught:
        programs.find(PostgreSQLSettings(), "16")
    assert (ExitCode.NOT_INSTALLED, True) == (
        caught.value.exit_code,
        "postgresql-16" in caught.value.hint,
    )


def test_a_folder_that_lacks_a_program_is_not_taken(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "bin", *NEEDED[:-1])
    with pytest.raises(OperatorError, match="not installed") as caught:
        programs.find(PostgreSQLSettings(bin_directory=folder))
    assert (ExitCode.NOT_INSTALLED, True) == (
        caught.value.exit_code,
        "apt-get install postgresql" in caught.value.hint,
    )


def test_another_user_is_handed_the_open_folder_and_not_its_path(tmp_path: Path) -> None:
    command = Identity(("setpriv",), "postgres").command(
        Programs(Path("/bin")), "postgres", tmp_path, "-D", "{data}"
    )
    assert ("-D", "/proc/self/fd/9") == command[-2:]
    assert str(tmp_path) in command[:4]
    same = Identity(()).command(Programs(Path("/bin")), "postgres", tmp_path, "-D", "{data}")
    assert ("/bin/postgres", "-D", str(tmp_path)) == same


@pytest.mark.parametrize("password", ["simple", "with:colon", "back\\slash:", "quo'te"])
def test_a_password_stays_what_it_is_in_its_file(
    cluster: Cluster, tmp_path: Path, password: str
) -> None:
    given = tmp_path / "given"
    given.write_text(password + "\n")
    given.chmod(0o600)
    own = dataclasses.replace(with_settings(cluster, password_file=given), var_directory=tmp_path)
    assert password == sql.ensure_password(own, "indico")
    without = dataclasses.replace(cluster, var_directory=tmp_path)
    assert password == sql.ensure_password(without, "indico")
    assert 0o600 == config.passfile(own, "indico").stat().st_mode & 0o777


def test_a_generated_password_is_made_once(cluster: Cluster, tmp_path: Path) -> None:
    own = dataclasses.replace(cluster, var_directory=tmp_path)
    first = sql.ensure_password(own, "zodbrepl")
    assert first == sql.ensure_password(own, "zodbrepl")
    assert first != sql.ensure_password(own, "indico")


@pytest.mark.parametrize("content", ["", "one\ntwo\n"])
def test_a_password_file_with_anything_but_one_line_is_refused(
    cluster: Cluster, tmp_path: Path, content: str
) -> None:
    given = tmp_path / "given"
    given.write_text(content)
    given.chmod(0o600)
    own = dataclasses.replace(with_settings(cluster, password_file=given), var_directory=tmp_path)
    with pytest.raises(OperatorError, match="password-file"):
        sql.ensure_password(own, "indico")


def test_a_text_stays_one_text_in_sql() -> None:
    assert "'it''s'" == sql.literal("it's")


def test_the_clients_files_are_well_formed(cluster: Cluster) -> None:
    for text in config.client_files(cluster).values():
        parsed = ZConfig.schemaless.loadConfigFile(io.StringIO(text))
        assert parsed.sections[0].type in ("indicostorage", "relstorage")


def test_a_server_that_takes_long_to_count_its_bytes_has_a_status_without_them() -> None:
    assert status.size_of(lambda _statement: [("",)]) is None
    assert 8192 == status.size_of(lambda _statement: [("8192",)])
