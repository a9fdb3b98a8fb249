"""For each backend, each command that changes a cluster either works or says what to do instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from indico_zodbrepl import backends
from indico_zodbrepl.backends.interfaces import FEATURES, OPERATIONS
from indico_zodbrepl.cli import main
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.errors import ExitCode, OperatorError

ROOT = Path(__file__).parents[3]
ORACLE = "<oracle>\n  dsn host/service\n  user indico\n  password-file {home}/password\n</oracle>\n"
DRY = "--dry-run"
REASON = ("--reason", "because")

# Each operation's commands, as they only look and as they would do it; NODE is the last node.
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "switchover": [("switchover", DRY), ("switchover", "NODE")],
    "failover": [("failover", DRY), ("failover", "NODE", DRY), ("failover", *REASON)],
    "rejoin": [("rejoin", "NODE", DRY), ("rejoin", "NODE")],
    "clone": [("clone", "NODE", DRY), ("clone", "NODE")],
    "recover": [("recover", "TAIL"), ("recover", "TAIL", "--all")],
    "lineage": [("history",), ("history", "NODE")],
    "promote": [
        ("node", "promote", "NODE", "--epoch", "2", DRY),
        ("node", "promote", "NODE", "--epoch", "2"),
        ("node", "start", "NODE", "--force", DRY),
        ("node", "start", "NODE", "--force", *REASON),
    ],
    "follow": [
        ("node", "follow", "NODE", "--upstream", "FIRST", "--epoch", "1", DRY),
        ("node", "follow", "NODE", "--upstream", "FIRST", "--epoch", "1"),
    ],
    "assign": [
        ("node", "assign", "NODE", "--role", "primary", "--epoch", "2", DRY),
        ("node", "assign", "NODE", "--role", "primary", "--epoch", "2"),
    ],
    "hold": [
        ("node", "pause-writes", "NODE", DRY),
        ("node", "pause-writes", "NODE"),
        ("node", "resume-writes", "NODE", DRY),
        ("node", "resume-writes", "NODE"),
    ],
    "backup": [("backup", DRY), ("backup", "NODE", "--to", "TAIL", DRY), ("backup", "NODE")],
    "restore": [
        ("restore", "NODE", DRY),
        ("restore", "NODE", "--from", "TAIL", DRY),
        ("restore", "NODE", "--from", "TAIL"),
    ],
}
OF_EVERY_NODE = [
    ("node", "start", "NODE", DRY),
    ("node", "stop", "NODE", DRY),
    ("node", "fence", "NODE", DRY),
    ("restart", "NODE", DRY),
]
CASES = [(name, operation) for name in backends.names() for operation in OPERATIONS]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a cluster that does not run; the installation is the one under test."""
    monkeypatch.setenv("ZODBREPL_HOME", str(ROOT))
    (tmp_path / "tail").mkdir()
    (tmp_path / "password").touch(0o600)
    return tmp_path


def make(home: Path, backend: str, *, managed: bool = True) -> Cluster:
    """A cluster with a node of each role; at its ports, which are nobody's, nothing listens."""
    shape, ports = SHAPES[backend], iter(range(2, 20))
    text = f"name demo\nbackend {backend}\nvar-directory {home}/var\n"
    for role in shape.roles[: shape.most_nodes]:
        text += f"<node {role}>\n  host 127.0.0.1\n  role {role}\n"
        text += f"  data-directory {home}/data/{role}\n"
        text += "".join(f"  {key} {next(ports)}\n" for key in sorted(shape.ports))
        if role in (Role.SECONDARY, Role.RELAY):
            text += "  upstream primary\n"
        if not managed or shape.section == "oracle":
            text += "  managed false\n"
        text += "</node>\n"
    if shape.section == "oracle":
        text += ORACLE.format(home=home)
    elif not managed:
        text += f"<{shape.section}>\n  password-file {home}/password\n</{shape.section}>\n"
    path = home / "cluster.conf"
    path.write_text(text + f"<admin>\n  port {next(ports)}\n</admin>\n")
    return load(path, ROOT)


def call(home: Path, cluster: Cluster, arguments: tuple[str, ...]) -> Result:
    words = {
        "NODE": cluster.nodes[-1].name,
        "FIRST": cluster.nodes[0].name,
        "TAIL": str(home / "tail"),
    }
    return CliRunner().invoke(
        main, ["-c", str(cluster.source), *(words.get(each, each) for each in arguments)]
    )


def everything_in(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_each_operation_has_its_commands_here() -> None:
    assert set(OPERATIONS) == set(COMMANDS)


@pytest.mark.parametrize("name", backends.names())
def test_a_limit_is_one_sentence_about_something_known(home: Path, name: str) -> None:
    cluster = make(home, name)
    limits = backends.backend_of(cluster).limits
    assert set() == set(limits) - set(OPERATIONS) - set(FEATURES)
    for feature, sentence in limits.items():
        assert re.fullmatch(r"[^\n]{20,}[^.\n]", sentence), f"{feature}: {sentence!r}"


@pytest.mark.parametrize(("name", "operation"), CASES)
def test_a_command_either_works_or_says_what_to_do_instead(
    home: Path, name: str, operation: str
) -> None:
    cluster = make(home, name)
    limit = backends.limit(cluster, operation)
    before = everything_in(home)
    for arguments in COMMANDS[operation]:
        if limit is None and DRY not in arguments:
            continue
        result = call(home, cluster, arguments)
        shown = f"{arguments}: {result.output}{result.exception!r}"
        assert result.exception is None or isinstance(result.exception, SystemExit), shown
        if limit is not None:
            assert ExitCode.REFUSED == result.exit_code, shown
            assert f"DETAIL: {limit}\n" in result.stderr, shown
            assert limit.count("`bin/zodbrepl ") == limit.count(
                f"zodbrepl -c {cluster.source} "
            ) + limit.count("zodbrepl -c cluster.conf "), shown
            assert before == everything_in(home), shown


@pytest.mark.parametrize("name", [name for name in backends.names() if SHAPES[name].may_be_foreign])
def test_servers_of_somebody_else_are_left_alone_by_every_command(home: Path, name: str) -> None:
    cluster = make(home, name, managed=False)
    before = everything_in(home)
    for arguments in (*(each for found in COMMANDS.values() for each in found), *OF_EVERY_NODE):
        result = call(home, cluster, arguments)
        shown = f"{arguments}: {result.output}{result.exception!r}"
        assert ExitCode.REFUSED == result.exit_code, shown
        assert "DETAIL: " in result.stderr, shown
    assert before == everything_in(home)


@pytest.mark.parametrize("name", backends.names())
def test_a_step_of_one_node_is_rehearsed_or_refused_for_every_backend(
    home: Path, name: str
) -> None:
    cluster = make(home, name)
    for arguments in OF_EVERY_NODE:
        result = call(home, cluster, arguments)
        shown = f"{arguments}: {result.output}{result.exception!r}"
        assert result.exception is None or isinstance(result.exception, SystemExit), shown
        if not cluster.nodes[-1].has_program:
            assert ExitCode.REFUSED == result.exit_code, shown
            assert "has no program here" in result.stderr, shown


@pytest.mark.parametrize("command", ["import", "export"])
@pytest.mark.parametrize("name", backends.names())
def test_files_are_moved_only_where_the_database_keeps_them(
    home: Path, name: str, command: str
) -> None:
    cluster = make(home, name)
    reason = backends.limit(cluster, "blobs")
    result = call(home, cluster, ("files", command, DRY))
    if reason is None:
        assert result.exit_code == ExitCode.NOT_RUNNING, result.output
    else:
        assert result.exit_code == ExitCode.REFUSED, result.output
        assert reason in result.output


@pytest.mark.parametrize("name", backends.names())
def test_backups_can_be_scheduled_where_there_is_a_command_that_makes_them(
    home: Path, name: str
) -> None:
    cluster = make(home, name)
    assert backends.can(cluster, "backup") is SHAPES[name].has_backups
    path = home / "scheduled.conf"
    text = (cluster.source).read_text()
    path.write_text(f"backup-directory /backup\nbackup-time 03:00\n{text}")
    if SHAPES[name].has_backups:
        assert load(path, home).backup_time is not None
        return
    with pytest.raises(OperatorError) as caught:
        load(path, home)
    assert f":2: the backend {name} has backups of its own" in caught.value.detail
