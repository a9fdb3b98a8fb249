"""bin/zodbrepl silence: list alerts, and acknowledge one with a reason and an end."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from indico_zodbrepl.cli import main
from indico_zodbrepl.cluster import load
from indico_zodbrepl.operations import journal, silences
from indico_zodbrepl.operations.silences import key_of, name_of
from indico_zodbrepl.probing.answers import Alert, Level

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


def test_a_silence_of_an_alert_that_is_gone_is_listed_and_can_be_ended(home: Path) -> None:
    of = load(home / "etc" / "cluster.conf", home)
    alert = Alert(Level.WARNING, "b", "secondary b is stopped", "", "")
    name = name_of(key_of(alert))
    silences.silence(of, alert, 2, "a disk", "anna", now=time.time())
    listed = call().stdout.partition("Silences of alerts that are gone:\n")[2]
    assert listed.startswith(f"{name}  WARNING: secondary b is stopped\n")
    assert "silenced by anna for 2 h 0 min more: a disk" in listed
    assert 2 == call(name, "--hours", "1", "--reason", "x").exit_code
    assert 0 == call(name, "--end", "--reason", "repaired").exit_code
    assert "silenced" not in call().stdout.lower()


def test_an_alert_that_is_not_silenced_cannot_be_ended(home: Path) -> None:
    name = re.findall(r"(?m)^([0-9a-f]{8})  ", call().stdout)[0]
    assert 2 == call(name, "--end", "--reason", "over").exit_code
    assert [] == journal.read(load(home / "etc" / "cluster.conf", home))[0]


@pytest.mark.usefixtures("home")
def test_an_unknown_alert_is_refused() -> None:
    assert 2 == call("00000000", "--hours", "1", "--reason", "x").exit_code
