"""What ``status`` prints: everything, whole, within 80 columns where nothing has to stay whole."""

import io
from typing import Any

import pytest
from rich.console import Console
from situations import (
    ALL_STOPPED,
    HEALTHY,
    HOME,
    ONE_SECOND,
    PRIMARY_KILLED,
    SECONDARY_KILLED,
    SPLIT_BRAIN,
    TID,
    TID_TIME,
    behind,
    cluster,
    server,
    snapshot,
)

from indico_zodbrepl.cli.status_view import print_parts, view
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations.recommend import procedures as advise
from indico_zodbrepl.probing.answers import Hold, ServerRole


def printed(found: Snapshot) -> str:
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        print_parts(console, view(found, advise(cluster(), found, HOME), HOME))
    return capture.get()


@pytest.mark.parametrize("situation", [PRIMARY_KILLED, ALL_STOPPED, SPLIT_BRAIN])
def test_without_a_terminal_the_first_line_is_the_whole_sentence(situation: dict[str, Any]) -> None:
    found = snapshot(**situation)
    console = Console(width=80, highlight=False, file=io.StringIO())
    with console.capture() as capture:
        print_parts(console, view(found, (), HOME, fold_first=console.is_terminal))
    assert f"{found.state.upper()}  {found.sentence}" == capture.get().splitlines()[0]


@pytest.mark.parametrize("situation", [HEALTHY, SECONDARY_KILLED, PRIMARY_KILLED, ALL_STOPPED])
def test_nothing_is_cut(situation: dict[str, Any]) -> None:
    found = snapshot(**situation)
    text = printed(found)
    words = " ".join(text.split())
    for warning in found.warnings:
        for part in (warning.text, warning.detail, warning.hint):
            assert part in words
    if found.state in ("down", "unknown"):
        for procedure in advise(cluster(), found, HOME):
            for step in procedure.steps:
                assert " ".join(step.text.split()) in words
                for command in step.commands:
                    assert f"{command}\n" in text, "a command is on one line, ready to be copied"
    assert "…" not in text


@pytest.mark.parametrize("situation", [HEALTHY, SECONDARY_KILLED, PRIMARY_KILLED])
def test_tables_and_sentences_fit_80_columns(situation: dict[str, Any]) -> None:
    for line in printed(snapshot(**situation)).splitlines():
        assert len(line.rstrip()) <= 80 or "bin/" in line or "var/" in line, line


def test_reality_stands_against_intent() -> None:
    text = printed(
        snapshot(
            servers={
                "b": server(
                    "b", role=ServerRole.PRIMARY, upstream=None, connected=None, read_only=False
                )
            }
        )
    )
    assert "* primary" in text
    assert "! primary" in text
    assert "not secondary" in text
    assert "? secondary" in printed(snapshot(**SECONDARY_KILLED))


def test_lag_is_shown_in_seconds_and_transactions() -> None:
    text = printed(
        snapshot(
            comparisons={"b": behind(12, TID + 3 * ONE_SECOND, exact=False)}, taken_at=TID_TIME + 3
        )
    )
    assert "3.0 s" in text
    assert ">=12 trans." in text


def test_a_folded_hint_keeps_its_commands_whole() -> None:
    text = printed(snapshot(**SECONDARY_KILLED))
    assert "`bin/zodbrepl restart b`" in text


def test_a_diverged_node_and_refused_writes_are_in_the_table() -> None:
    text = printed(
        snapshot(
            servers={
                "a": server("a", held=Hold.FOLLOWERS, min_followers=1, followers=()),
                "b": server("b", connected=False),
            },
            lineages={"b": (Condition.DIVERGED, "3 transactions only here")},
        )
    )
    table = text[: text.index("CRITICAL")]
    assert "writes refused" in table
    assert "diverged" in table
    assert "bin/zodbrepl rejoin b --dry-run" in text


def test_free_space_is_shown_for_each_disk_once() -> None:
    one, other = Disk(15 << 30, 20 << 30, 1), Disk(100 << 20, 20 << 30, 2)
    text = printed(snapshot(disks={"a": one, "b": other}, control_disk=one))
    assert "\nFree space: a, var: 15.0 GiB of 20.0 GiB; b: 100 MiB of 20.0 GiB\n" in text
