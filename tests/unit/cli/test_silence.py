"""bin/zodbrepl silence: list alerts, and acknowledge one with a reason and an end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from indico_zodbrepl.cli import main
from indico_zodbrepl.cluster import load
from indico_zodbrepl.operations import journal

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster that was never started, so there are alerts."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "cluster.conf").write_text(EXAMPLE.read_text())
    (tmp_path / "var").mkdir()
    monkeypatch.setenv("ZODBREPL_HOME", str(tmp_path))
    monkeypatch.setenv("ZODBREPL_ACTOR", "anna")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["silence", *arguments])


def test_an_alert_is_silenced_by_its_name_in_the_list_and_sounds_again(home: Path) -> None:
    of = load(home / "etc" / "cluster.conf", home)
    name = re.findall(r"(?m)^([0-9a-f]{8})  ", call().stdout)[0]
    tried = call(name, "--hours", "2", "--dry-run")
    assert tried.stdout.endswith("This was a dry run: nothing was changed.\n")
    assert [] == journal.read(of)[0]
    assert 0 == call(name, "--hours", "2", "--reason", "a test").exit_code
    assert "silenced by anna for 2 h 0 min more: a test" in call().stdout
    shown = CliRunner().invoke(main, ["status"])
    assert "silenced by anna for 2 h 0 min more: a test" in shown.stdout
    assert 0 == call(name, "--end", "--reason", "over").exit_code
    assert "silenced" not in call().stdout
    kinds = [each.plan.operation for each in journal.read(of)[0]]
    assert ["silence", "silence-end"] == kinds


@pytest.mark.parametrize(
    "arguments",
    [
        ("--hours", "73", "--reason", "x"),
        ("--hours", "0", "--reason", "x"),
        ("--hours", "nan", "--reason", "x"),
        ("--hours", "2"),
        ("--reason", "x"),
        ("--hours", "2", "--end", "--reason", "x"),
    ],
)
def test_without_a_reason_or_a_bounded_time_nothing_is_silenced(
    home: Path, arguments: tuple[str, ...]
) -> None:
    name = re.findall(r"(?m)^([0-9a-f]{8})  ", call().stdout)[0]
    assert 2 == call(name, *arguments).exit_code
    assert [] == journal.read(load(home / "etc" / "cluster.conf", home))[0]


@pytest.mark.usefixtures("home")
def test_an_unknown_alert_is_refused() -> None:
    assert 2 == call("00000000", "--hours", "1", "--reason", "x").exit_code
