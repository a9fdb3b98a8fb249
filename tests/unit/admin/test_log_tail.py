"""What a page shows of a log, and of what a command printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.admin import log_tail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


def numbered(count: int) -> list[str]:
    return [f"line {number}" for number in range(count)]


def test_of_a_log_the_end_is_shown(path: Path) -> None:
    path.write_text("\n".join(numbered(50)))
    assert tuple(numbered(50)[30:]) == log_tail.tail(path)


def test_what_a_command_printed_is_shown_from_its_first_line(path: Path) -> None:
    path.write_text("\n".join(numbered(200)))
    assert tuple(numbered(200)) == log_tail.output(path)


@pytest.mark.parametrize("lines", [numbered(10_000), ["x" * 5000 for _ in range(100)]])
def test_of_very_long_output_the_end_is_shown_and_the_file_named(
    path: Path, lines: list[str]
) -> None:
    path.write_text("\n".join(lines))
    first, *shown = log_tail.output(path)
    assert str(path) in first
    assert lines[-1] == shown[-1]
    assert len(shown) < len(lines)
    assert sum(map(len, shown)) <= 64 * 1024


def test_control_characters_are_replaced(path: Path) -> None:
    path.write_bytes(b"\x1b[31mred\xff\n")
    assert ("?[31mred\N{REPLACEMENT CHARACTER}",) == log_tail.output(path)


def test_a_missing_file_is_empty_and_an_unreadable_one_says_why(path: Path) -> None:
    assert () == log_tail.output(path) == log_tail.tail(path)
    path.mkdir()
    assert (f"cannot read {path}: Is a directory",) == log_tail.output(path)
