"""bin/zodbrepl: the frame of the commands, check and render."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from indico_zodbrepl.cli import COMMANDS, App, main
from indico_zodbrepl.cli.group import FORMER_NAMES
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import generated

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "cluster.conf").write_text(EXAMPLE.read_text())
    monkeypatch.setenv("ZODBREPL_HOME", str(tmp_path))
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_check_takes_the_cluster_file_of_the_installation(home: Path) -> None:
    result = call("check")
    expected = (
        f"{home}/etc/cluster.conf is valid: cluster demo, backend zrs, 2 nodes, "
        "2 Indico instances\n"
    )
    assert (expected, 0) == (result.stdout, result.exit_code)


def test_check_takes_the_file_it_is_given(home: Path) -> None:
    other = home / "other.conf"
    other.write_text(EXAMPLE.read_text().replace("name demo", "name other"))
    assert "cluster other" in call("-c", str(other), "check").stdout


def test_check_shows_each_problem_in_one_line_and_changes_nothing(home: Path) -> None:
    path = home / "etc" / "cluster.conf"
    path.write_text(
        path.read_text().replace("upstream a", "upstream z").replace("port 8102", "port 8101")
    )
    before = files_in(home)
    result = call("check")
    assert ("", ExitCode.BAD_CONFIG) == (result.stdout, result.exit_code)
    assert [
        "NOTICE: cluster.conf is invalid",
        f"DETAIL: {path}:22: upstream 'z' is not a node of this cluster",
        f"{path}:32: port 8101 is the port of indico one already, at {path}:27",
        "HINT: nothing was changed; correct the file, then run: bin/zodbrepl check",
    ] == result.stderr.splitlines()
    assert before == files_in(home)


def test_the_hint_names_the_file_that_was_given(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other one.conf"
    other.write_text("name other\n")
    hint = "then run: bin/zodbrepl -c 'other one.conf' check\n"
    assert hint in call("-c", str(other), "check").stderr
    assert home.exists()


@pytest.mark.parametrize("arguments", [["--jsn"], ["--json", "--watch"], ["too", "much"]])
def test_a_wrong_call_of_status_is_an_unknown_state_not_a_cluster_that_is_down(
    home: Path, arguments: list[str]
) -> None:
    result = call("status", *arguments)
    assert (3, True) == (result.exit_code, result.stderr.startswith("Usage:"))
    assert home.exists()


def test_a_wrong_cluster_file_is_an_unknown_state(home: Path) -> None:
    (home / "etc" / "cluster.conf").write_text("name demo\n")
    result = call("status")
    assert (3, True) == (
        result.exit_code,
        result.stderr.startswith("NOTICE: cluster.conf is invalid"),
    )


def test_a_defect_in_status_is_an_unknown_state(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("indico_zodbrepl.cli.status_view.take_snapshot", broken)
    result = call("status")
    assert (3, True) == (result.exit_code, "ZeroDivisionError: a defect" in result.stderr)
    assert home.exists()


def test_render_shows_every_generated_file_and_changes_nothing(home: Path) -> None:
    before = files_in(home)
    result = call("render")
    assert 0 == result.exit_code
    app = App(home / "etc" / "cluster.conf", Installation(home))
    expected = [
        *generated.cluster_files(app.cluster, app.installation),
        *generated.node_files(app.cluster),
    ]
    assert [str(path) for path in expected] == [
        line.removeprefix("==> ").removesuffix(" <==")
        for line in result.stdout.splitlines()
        if line.startswith("==> ")
    ]
    assert Layout(app.cluster).zodb_conf in expected
    assert before == files_in(home)


def test_up_without_an_installation_says_how_to_get_one(home: Path) -> None:
    result = call("up")
    assert ExitCode.NOT_INSTALLED == result.exit_code
    assert f"HINT: cd {home} && ./bootstrap" in result.stderr
    assert not (home / "var").exists()


def test_node_run_of_an_unknown_node_is_refused_at_once_outside_of_supervisor(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUPERVISOR_ENABLED", raising=False)
    result = call("node", "run", "z")
    assert ExitCode.BAD_CONFIG == result.exit_code
    assert f"NOTICE: no node 'z' in {home}/etc/cluster.conf" in result.stderr


@pytest.mark.parametrize(
    ("why", "code"),
    [
        (errno.ENOSPC, ExitCode.FAILED),
        (errno.EIO, ExitCode.FAILED),
        (errno.EROFS, ExitCode.REFUSED),
    ],
)
def test_supervisor_repeats_a_start_on_a_full_or_failing_disk_but_no_refusal(
    home: Path, monkeypatch: pytest.MonkeyPatch, why: int, code: ExitCode
) -> None:
    """It gives up soon if a program ends at once, so such a start waits before."""

    def failing(**_options: object) -> None:
        raise OSError(why, os.strerror(why))

    held: list[float] = []
    monkeypatch.setenv("SUPERVISOR_ENABLED", "1")
    monkeypatch.setattr(
        "indico_zodbrepl.cluster.installation.Installation.check", lambda _self: None
    )
    monkeypatch.setattr("indico_zodbrepl.host.run.tempfile.TemporaryFile", failing)
    monkeypatch.setattr("indico_zodbrepl.host.run.time.sleep", held.append)
    result = call("node", "run", "a")
    assert (code, 1) == (result.exit_code, len(held)), result.output
    assert os.strerror(why) in result.stderr
    assert home.exists()


def test_an_interruption_ends_with_130(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("indico_zodbrepl.host.lifecycle.down", interrupted)
    result = call("down")
    assert ("interrupted\n", ExitCode.INTERRUPTED) == (result.stderr, result.exit_code)
    assert home.exists()


def test_help_names_every_command(home: Path) -> None:
    listed = call("--help").stdout
    assert [] == [command for command in COMMANDS if f"\n  {command} " not in listed]
    assert home.exists()


def test_a_usage_text_names_the_command_as_it_is_typed(home: Path) -> None:
    assert "Try 'bin/zodbrepl status --help' for help." in call("status", "--jsn").stderr
    assert home.exists()


def test_an_unknown_command_is_a_wrong_call(home: Path) -> None:
    result = call("destroy")
    assert (2, True) == (result.exit_code, "No such command 'destroy'" in result.stderr)
    assert home.exists()


@pytest.mark.parametrize(("former", "name"), FORMER_NAMES.items())
def test_a_former_name_still_works_and_is_listed_by_no_help_text(
    home: Path, former: str, name: str
) -> None:
    group, _, command = f" {former}".rpartition(" ")
    assert call(*former.split(), "--help").stdout == call(*name.split(), "--help").stdout
    assert f"Usage: bin/zodbrepl {name} " in call(*former.split(), "--help").stdout
    assert f"\n  {command} " not in call(*group.split(), "--help").stdout
    assert home.exists()


# What a command may load only if it uses it; drivers are those of database servers.
HEAVY = ("flask", "matplotlib", "prometheus_client", "aiohttp", "supervisor", "psycopg2", "MySQLdb",
         "pymysql", "cx_Oracle", "oracledb")  # fmt: skip
IMPORTED = """
import sys
from indico_zodbrepl.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "further", "most"),
    [
        ([], ("rich", "ZConfig", "indico_zodbrepl.cluster"), 5),
        (["--help"], ("rich", "ZConfig", "indico_zodbrepl.cluster"), 5),
        (["status", "--help"], ("rich", "ZConfig", "indico_zodbrepl.monitor"), 23),
        (["failover", "--help"], ("rich", "ZConfig", "indico_zodbrepl.operations"), 23),
        (["node", "--help"], ("rich", "ZConfig", "indico_zodbrepl.host"), 23),
        (["admin", "--help"], ("rich", "ZConfig", "indico_zodbrepl.admin"), 23),
        (["status"], ("tenacity", "indico_zodbrepl.operations.model"), 101),
        (["status", "--json"], ("rich", "tenacity", "indico_zodbrepl.operations"), 94),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_command_imports_only_what_it_uses(
    home: Path, arguments: list[str], further: tuple[str, ...], most: int
) -> None:
    """``most`` is how many modules of ours it imports today; raise it only for a good reason."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments],
        env={**os.environ, "PYTHONPATH": str(EXAMPLE.parents[1] / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stderr.splitlines()[-1].split()
    assert [] == [
        name for name in loaded for each in (*HEAVY, *further) if f"{name}.".startswith(f"{each}.")
    ]
    ours = [name for name in loaded if name.partition(".")[0] == "indico_zodbrepl"]
    assert len(ours) <= most, ours
    assert home.exists()


def test_status_of_a_wrong_cluster_file_is_unknown_not_down(home: Path) -> None:
    (home / "etc" / "cluster.conf").write_text("nonsense\n")
    result = call("status")
    assert (3, "") == (result.exit_code, result.stdout)
    assert "NOTICE" in result.stderr


@pytest.mark.parametrize("arguments", [["--json", "--watch"], ["--colour"]])
@pytest.mark.usefixtures("home")
def test_wrong_options_of_status_are_refused(arguments: list[str]) -> None:
    """Exit code 2 says that the cluster is down."""
    assert 3 == call("status", *arguments).exit_code


def test_down_of_a_cluster_that_never_ran_does_nothing(home: Path) -> None:
    result = call("down")
    assert (0, "nothing is running\n") == (result.exit_code, result.stdout)
    assert not (home / "var").exists()
