"""The generated files, read back by the programs' own parsers."""

from __future__ import annotations

import configparser
import dataclasses
import logging
import logging.handlers
import shlex
from pathlib import Path
from typing import Any

import pytest
from supervisor.options import ServerOptions

from indico_zodbrepl.cluster import Cluster, load, rendering
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import SOCKET_PATH_LIMIT, Layout
from indico_zodbrepl.cluster.rendering import (
    Program,
    admin_program,
    indico_program,
    scheduler_program,
)
from indico_zodbrepl.errors import ExitCode, OperatorError

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
AWKWARD = "two words, a=b (c): d"


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path / AWKWARD)


@pytest.fixture
def cluster(installation: Installation) -> Cluster:
    return load(EXAMPLE, installation.home)


def read_by_supervisor(
    cluster: Cluster, installation: Installation, programs: list[Program]
) -> Any:
    layout = Layout(cluster)
    for folder in (layout.etc, layout.log, layout.run, layout.indico):
        folder.mkdir(parents=True)
    layout.supervisord_conf.write_text(
        rendering.supervisord_conf(cluster, installation, programs, as_root=False)
    )
    options = ServerOptions()
    options.realize(["-c", str(layout.supervisord_conf)])
    return options


def test_supervisor_reads_the_commands_and_variables_that_were_meant(
    cluster: Cluster, installation: Installation
) -> None:
    programs = [
        indico_program(cluster, installation, cluster.indico[0]),
        admin_program(cluster, installation),
    ]
    for program in programs:
        path = Path(program.command[0])
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
    options = read_by_supervisor(cluster, installation, programs)
    found = {group.name: group.process_configs[0] for group in options.process_group_configs}
    for program in programs:
        config = found[program.name]
        assert list(program.command) == shlex.split(config.command)
        assert dict(program.environment).items() <= config.environment.items()
        assert str(installation.home) == config.environment["ZODBREPL_HOME"]
        assert str(program.directory) == config.directory
        assert program.stop_seconds == config.stopwaitsecs
        assert list(program.final_exits) == config.exitcodes
        assert config.autostart is False


def test_the_programs_of_indico_know_the_leader_where_it_is_replaced_automatically(
    cluster: Cluster, installation: Installation
) -> None:
    instance = cluster.indico[0]
    for program in (indico_program, scheduler_program):
        assert "ZODBREPL_LEADER" not in program(cluster, installation, instance).environment
        automatic = dataclasses.replace(cluster, automatic=True)
        found = program(automatic, installation, instance).environment["ZODBREPL_LEADER"]
        assert Path(found) == cluster.var_directory / "leader.json"


def test_supervisord_listens_on_its_unix_socket_alone(
    cluster: Cluster, installation: Installation
) -> None:
    options = read_by_supervisor(cluster, installation, [])
    ((server),) = options.server_configs
    assert (str(Layout(cluster).supervisor_socket), 0o700) == (server["file"], server["chmod"])


def test_root_is_named_only_when_root_runs_it(cluster: Cluster, installation: Installation) -> None:
    users = []
    for as_root in (True, False):
        parser = configparser.ConfigParser()
        parser.read_string(rendering.supervisord_conf(cluster, installation, [], as_root=as_root))
        users.append(parser["supervisord"].get("user"))
    assert ["root", None] == users


def test_indico_conf_is_python_that_names_this_instance(
    cluster: Cluster, installation: Installation
) -> None:
    values: dict[str, Any] = {}
    exec(rendering.indico_conf(cluster, installation, cluster.indico[1]), values)  # noqa: S102
    assert "http://127.0.0.1:8102/indico" == values["BaseURL"]
    assert str(Layout(cluster).zodb_conf) == values["DBStorageURL"]
    assert str(installation.htdocs) == values["HtdocsDir"]
    assert "two" == values["WorkerName"]


def executed(path: Path) -> dict[str, Any]:
    """The values of a rendered indico.conf, with the execfile of the Python it is for."""
    values: dict[str, Any] = {}

    def execfile(name: str) -> None:
        exec(Path(name).read_text(), values)  # noqa: S102

    values["execfile"] = execfile
    execfile(str(path))
    return values


def test_a_sites_own_conf_counts_but_not_for_where_things_are(
    cluster: Cluster, installation: Installation, tmp_path: Path
) -> None:
    """The site's file is one of Indico 1.2, with keys that nobody knows any more."""
    site_conf = tmp_path / "indico of the site.conf"
    site_conf.write_text("""\
import os
DBConnectionParams = ("localhost", 9675)
DBStorageURL = DBOptions = ConfigurationDir = LogDir = "theirs"
HtdocsDir = DocumentationDir = BinDir = XMLCacheDir = UploadedFilesTempDir = "theirs"
UploadedFilesSharedTempDir = WorkerName = StaticFileMethod = "theirs"
BaseURL = "https://events.example.org"
BaseSecureURL = os.path.join(BaseURL, "secure")
ArchiveDir = "/srv/archive"
SmtpServer = ("mail.example.org", 25)
AuthenticatorList = [("LDAP", {"uri": "ldap://ldap.example.org"}), ("Local", {})]
KeyOfAnOlderIndico = 1
""")
    with_site = dataclasses.replace(cluster, site_conf=site_conf)
    conf = tmp_path / "indico.conf"
    conf.write_text(rendering.indico_conf(with_site, installation, cluster.indico[0]))
    values = executed(conf)
    assert "https://events.example.org" == values["BaseURL"]
    assert "https://events.example.org/secure" == values["BaseSecureURL"]
    assert "/srv/archive" == values["ArchiveDir"]
    assert ("mail.example.org", 25) == values["SmtpServer"]
    assert "LDAP" == values["AuthenticatorList"][0][0]
    assert 2 == values["SanitizationLevel"], "what the site does not set keeps our value"
    assert str(Layout(cluster).zodb_conf) == values["DBStorageURL"]
    assert [] == [key for key, value in values.items() if value == "theirs"]


def test_the_folders_that_indico_conf_names_are_those_that_are_made(
    cluster: Cluster, installation: Installation
) -> None:
    instance = cluster.indico[0]
    values: dict[str, Any] = {}
    exec(rendering.indico_conf(cluster, installation, instance), values)  # noqa: S102
    named = {
        values[key]
        for key in (
            "LogDir",
            "UploadedFilesTempDir",
            "XMLCacheDir",
            "UploadedFilesSharedTempDir",
            "ArchiveDir",
            "AssetsDir",
        )
    }
    assert named == set(map(str, rendering.indico_directories(cluster, instance)))


def test_instances_share_cache_and_archive_but_not_their_logs(
    cluster: Cluster, installation: Installation
) -> None:
    one: dict[str, Any] = {}
    two: dict[str, Any] = {}
    for values, instance in ((one, cluster.indico[0]), (two, cluster.indico[1])):
        exec(rendering.indico_conf(cluster, installation, instance), values)  # noqa: S102
    shared = {
        key
        for key in ("XMLCacheDir", "ArchiveDir", "DBStorageURL", "LogDir", "BaseURL")
        if one[key] == two[key]
    }
    assert {"XMLCacheDir", "ArchiveDir", "DBStorageURL"} == shared
    assert one["UploadedFilesSharedTempDir"] == one["ArchiveDir"]


def test_indico_logs_into_files_that_rotate_and_mails_nothing(cluster: Cluster) -> None:
    """Read as Indico reads it, which evaluates class and args in the module logging."""
    instance = cluster.indico[0]
    parser = configparser.RawConfigParser()
    parser.read_string(rendering.logging_conf(cluster, instance))
    keys = parser["handlers"]["keys"].split(",")
    folder = Layout(cluster).log / instance.name
    folder.mkdir(parents=True)
    for key in keys:
        section = parser[f"handler_{key}"]
        handler = eval(section["class"], vars(logging))(  # noqa: S307
            *eval(section["args"], vars(logging))  # noqa: S307
        )
        handler.close()
        assert isinstance(handler, logging.handlers.RotatingFileHandler)
        assert str(folder / f"{key}.log") == handler.baseFilename
        assert (10 * 1024 * 1024, 5) == (handler.maxBytes, handler.backupCount)
    assert ["indico", "other"] == keys


def test_a_socket_path_too_long_moves_out_of_var(cluster: Cluster) -> None:
    deep = dataclasses.replace(cluster, var_directory=Path("/srv", "x" * 90))
    assert len(bytes(Layout(deep).supervisor_socket)) <= SOCKET_PATH_LIMIT
    assert Layout(deep).supervisor_socket == Layout(deep).supervisor_socket
    other = dataclasses.replace(cluster, var_directory=Path("/srv", "y" * 90))
    assert Layout(deep).supervisor_socket != Layout(other).supervisor_socket


def test_an_incomplete_installation_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as caught:
        Installation(tmp_path).check()
    assert ExitCode.NOT_INSTALLED == caught.value.exit_code
    assert str(tmp_path / "bin" / "supervisord") in caught.value.detail
    assert f"cd {tmp_path} && ./bootstrap" == caught.value.hint


def test_a_program_without_final_exits_is_started_again_without_end(
    cluster: Cluster, installation: Installation
) -> None:
    """The disk of a member of etcd may be full for hours."""
    ending = admin_program(cluster, installation)
    endless = dataclasses.replace(ending, name="etcd", final_exits=())
    options = read_by_supervisor(cluster, installation, [ending, endless])
    retries = {each.name: each.startretries for each in programs_of(options)}
    assert retries == {"admin": 3, "etcd": 100_000}


def programs_of(options: Any) -> list[Any]:
    return [each for group in options.process_group_configs for each in group.process_configs]
