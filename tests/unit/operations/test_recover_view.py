"""What `recover` prints, and what it refuses before it does anything."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from indico_zodbrepl.cli import App, data
from indico_zodbrepl.cli.data_view import recovered_event, transaction_lines
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.operations import recover as recovering
from indico_zodbrepl.operations.recover import (
    Difference,
    LostObject,
    LostTransaction,
    RecoveredEvent,
    Recovery,
)

HOME = Path(__file__).parents[3]
TREE = LostObject(
    "0000000000000001",
    "BTrees.OOBTree.OOBTree",
    "changed",
    "conflicts",
    "both sides changed the same part",
    (Difference("3", None, "-> 3d5", protected=False),),
)
EVENT = LostObject("00000000000003d5", 'Conference 3 "Lost"', "new", "applies", "", ())
NOTE = LostObject(
    "0000000000000172",
    'Conference 0 "Big"',
    "unchanged",
    "applies",
    "",
    (Difference("title", "Old", "Big", protected=False),),
)
FINE = LostTransaction("0400000000000001", "ann", "edit", "applies", (NOTE,))
UPLOAD = LostObject(
    "00000000000003d6",
    "ZODB.blob.Blob",
    "unchanged",
    "applies",
    "",
    (),
    "/lost/blobs/0x00/1.blob",
    "2026/C3/57/slides.pdf",
)
CONFLICT = LostTransaction("0400000000000002", "", "", "conflicts", (EVENT, TREE, UPLOAD))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What the data plane says; the calls made to it."""
    calls: list[tuple[object, ...]] = []

    def told(written: str | None) -> Recovery:
        return Recovery("a-2-x", "0400000000000000", written, 1, (FINE, CONFLICT))

    def show(*_arguments: object) -> Recovery:
        calls.append(("show",))
        return told(None)

    def apply(
        _cluster: object, _installation: object, _tail: Path, picks: list[str], *, dry_run: bool
    ) -> Recovery:
        calls.append((picks, dry_run))
        return told(None if dry_run else "0400000000000009")

    monkeypatch.setattr(recovering, "show", show)
    monkeypatch.setattr(recovering, "apply", apply)
    return calls


def run(tmp_path: Path, *arguments: str) -> Result:
    app = App(HOME / "etc" / "cluster.conf", Installation(HOME))
    return CliRunner().invoke(data.recover, [str(tmp_path), *arguments], obj=app)


def test_what_was_lost_is_shown_with_what_stands_against_it(
    tmp_path: Path, found: list[tuple[object, ...]]
) -> None:
    done = run(tmp_path)
    assert [("show",)] == found
    assert 0 == done.exit_code
    lines = done.output.splitlines()
    assert "transaction 0400000000000001  ann edit: can be recovered" in lines
    assert "      title: 'Old' -> 'Big'" in lines
    assert "      3: (nothing) -> '-> 3d5'" in lines
    assert (
        '  Conference 3 "Lost" can be recovered under a new number: --event 00000000000003d5'
        in lines
    )
    assert "  uploaded file 2026/C3/57/slides.pdf is in /lost/blobs/0x00/1.blob" in lines
    assert "conflicts: both sides changed the same part" in done.output
    assert "1 can be recovered, 1 conflict, 0 already present" in done.output
    assert f"bin/zodbrepl recover {tmp_path} --all" in done.output


def test_protected_values_are_masked_in_the_output_which_logs_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = (Difference("_accessKey", None, "sesame"), Difference("0b1c-3", "-> 1", None))
    note = dataclasses.replace(NOTE, differences=fields)
    fine = dataclasses.replace(FINE, objects=(note,))
    answer = Recovery("a-2-x", "0400000000000000", None, 1, (fine,))
    monkeypatch.setattr(recovering, "show", lambda *_arguments: answer)
    lines = run(tmp_path).output.splitlines()
    assert "      _accessKey: (nothing) -> '********'" in lines
    assert "      ********: '********' -> (nothing)" in lines


@pytest.mark.parametrize(
    ("arguments", "picks"),
    [
        (["--all"], ["all"]),
        (["--transactions", "1,2", "--apply", "3:4", "--apply", "5:6"], ["1", "2", "3:4", "5:6"]),
    ],
)
def test_what_is_picked_is_made_again_and_what_is_left_is_counted(
    tmp_path: Path, found: list[tuple[object, ...]], arguments: list[str], picks: list[str]
) -> None:
    done = run(tmp_path, *arguments)
    assert [(picks, False)] == found
    assert "written in transaction 0400000000000009" in done.output
    assert "1 conflict and were left" in done.output


def test_a_dry_run_says_what_would_be_written(
    tmp_path: Path, found: list[tuple[object, ...]]
) -> None:
    done = run(tmp_path, "--all", "--dry-run")
    assert [(["all"], True)] == found
    assert "would be written: 1 object;" in done.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--all", "--transactions", "1"],
        ["--event", "1", "--all"],
        ["--event", "1", "--apply", "2:3"],
    ],
)
def test_picks_that_exclude_each_other_are_refused(
    tmp_path: Path, found: list[tuple[object, ...]], arguments: list[str]
) -> None:
    assert 2 == run(tmp_path, *arguments).exit_code
    assert [] == found


def test_one_object_is_no_objects(tmp_path: Path, found: list[tuple[object, ...]]) -> None:
    assert "1 new object: Conference 3" in run(tmp_path).output
    assert "1 divergent transaction, 1 object" in run(tmp_path, "--all").output
    assert 2 == len(found)


def test_an_event_tells_of_its_attached_files() -> None:
    found = RecoveredEvent("a-2-x", "3d5", "Lost", "Physics", 17, "4", "0400000000000009", 2, 1)
    assert (
        "'Lost' is now event 4 in category 'Physics': 17 objects, 2 attached files; lost: "
        "1 attached file, transaction 0400000000000009"
    ) == recovered_event(found)
    assert "attached" not in recovered_event(dataclasses.replace(found, files=0, files_missing=0))


def test_what_users_wrote_gives_no_orders_to_a_terminal() -> None:
    evil = "\x1b[2J\x9b31m"
    change = Difference(f"key{evil}", None, evil, protected=False)
    note = dataclasses.replace(NOTE, differences=(change,), why=f"why{evil}")
    lost = LostTransaction("0400000000000001", f"ann{evil}", f"edit{evil}", "conflicts", (note,))
    told = "\n".join(transaction_lines(lost))
    assert "ann?[2J?31m edit?[2J?31m" in told
    assert "key?[2J?31m: " in told
    assert not {"\x1b", "\x9b"} & set(told)
