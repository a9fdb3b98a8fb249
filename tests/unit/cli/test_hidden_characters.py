"""What commands print of titles, paths and reasons that users have made up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from indico_zodbrepl.cli import main

NAME = "\u202efnoc.retsulc\u2066"
"""A name that reverses all text after it on a terminal that follows it."""


def printed(monkeypatch: pytest.MonkeyPatch, path: Path, reader: int, writer: int) -> str:
    """What a command prints about a cluster file that does not exist."""
    with open(writer, "w", encoding="utf-8", closefd=False) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(SystemExit):
            main(["-c", str(path / NAME), "check"])
        stream.flush()
        monkeypatch.undo()
    return os.read(reader, 65536).decode()


def test_a_terminal_shows_hidden_characters_as_a_question_mark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reader, writer = os.openpty()
    try:
        told = printed(monkeypatch, tmp_path, reader, writer)
    finally:
        os.close(reader)
        os.close(writer)
    assert "?fnoc.retsulc?" in told
    assert "\u202e" not in told


def test_a_pipe_gets_everything_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        told = printed(monkeypatch, tmp_path, reader, writer)
    finally:
        os.close(reader)
        os.close(writer)
    assert NAME in told
