"""A stamp file records the inputs of a generated folder, so that an up-to-date one is kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

STAMP = ".made-of.json"


def read_stamp(folder: Path) -> dict[str, str]:
    """Return the recorded inputs of a folder; empty if it was never completed."""
    try:
        facts = json.loads((folder / STAMP).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return {}
    return facts if isinstance(facts, dict) else {}


def is_fresh(folder: Path, facts: Mapping[str, str]) -> bool:
    """Return True if a folder was completed with exactly these inputs."""
    return read_stamp(folder) == dict(facts)


def write_stamp(folder: Path, facts: Mapping[str, str]) -> None:
    """Record that a folder is complete; call it last."""
    write_atomically(folder / STAMP, json.dumps(dict(facts), indent=1, sort_keys=True) + "\n")


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file atomically: a reader sees the old or the new text, also after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text)
    temporary.chmod(mode)
    temporary.replace(path)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(paths: Iterable[Path]) -> str:
    """Return one SHA-256 over names and contents of files, in hex; files may be missing."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path} {sha256_of(path) if path.is_file() else '-'}\n".encode())
    return digest.hexdigest()
