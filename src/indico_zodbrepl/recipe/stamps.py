"""What a made folder was made of, kept in it: the folder is fresh as long as that is still true."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

STAMP = ".made-of.json"


def read_stamp(folder: Path) -> dict[str, str]:
    """The facts a folder was made of; empty when it was never finished."""
    try:
        facts = json.loads((folder / STAMP).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return {}
    return facts if isinstance(facts, dict) else {}


def is_fresh(folder: Path, facts: Mapping[str, str]) -> bool:
    """Whether a folder was finished, and made of exactly these facts."""
    return read_stamp(folder) == dict(facts)


def write_stamp(folder: Path, facts: Mapping[str, str]) -> None:
    """Say that a folder is finished; the last thing done to it."""
    write_atomically(folder / STAMP, json.dumps(dict(facts), indent=1, sort_keys=True) + "\n")


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that a reader, or a crash, meets the old or the new text, nothing between."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text)
    temporary.chmod(mode)
    temporary.replace(path)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(paths: Iterable[Path]) -> str:
    """One SHA-256 over the names and contents of files, in hex; a missing file counts as such."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path} {sha256_of(path) if path.is_file() else '-'}\n".encode())
    return digest.hexdigest()
