"""The cluster file of this host: its replacement by another host, and the files it had before."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError

KEPT_SUFFIX = ".before"
"""Of the copy of the file that was replaced."""
MOST_EARLIER = 50
"""Digests of earlier files that a host remembers."""


def digest(text: str) -> str:
    """Return the digest of a cluster file's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def earlier(cluster: Cluster) -> tuple[str, ...]:
    """Return the digests of the cluster files that this one has replaced, the oldest first.

    A host whose file is among them was away when the file changed.  A record that can't be read is
    one that knows nothing.
    """
    try:
        return tuple(Layout(cluster).earlier_files.read_text("ascii").split())
    except (OSError, UnicodeDecodeError):
        return ()


def note_earlier(cluster: Cluster, digests: Iterable[str]) -> None:
    """Remember digests of replaced files; never that of the present one.

    Raises OperatorError (exit 8) if they can't be kept.
    """
    known, path = earlier(cluster), Layout(cluster).earlier_files
    present = digest(cluster.source.read_text("utf-8"))
    new = [each for each in dict.fromkeys((*known, *digests)) if each != present]
    if tuple(new) == known:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, "".join(f"{each}\n" for each in new[-MOST_EARLIER:]))
    except OSError as error:
        raise _unusable(path, error) from error


def parsed(path: Path, home: Path, text: str) -> Cluster:
    """Return the cluster of a text that is to be the file ``path``.

    Raises OperatorError: exit 2, it is invalid; exit 8, it can't be tried in that folder.
    """
    with _beside(path, text) as trial:
        try:
            cluster = load(trial, home)
        except OperatorError as error:
            detail = error.detail.replace(str(trial), str(path))
            raise OperatorError(
                f"the sent {path.name} is invalid", detail, "", ExitCode.BAD_CONFIG
            ) from error
    return dataclasses.replace(cluster, source=path)


def check(present: Cluster, home: Path, text: str) -> Cluster:
    """Return the cluster of a text that may replace this host's cluster file.

    Raises OperatorError: exit 2, it is invalid; exit 8, it is older than this host's, or of
    another cluster, or this host would not be in it, or in another place.
    """
    here, path = present.here, present.source
    if digest(text) in earlier(present):
        raise OperatorError(
            f"the cluster file of host {here} is newer",
            f"{path} there has replaced the file that was sent",
            "take that file over, or write a new one: its text must differ from earlier files, "
            "for example by a comment",
            ExitCode.REFUSED,
        )
    new = parsed(path, home, text)
    changed = [
        f"{what}: {before} and {after}"
        for what, before, after in (
            ("name", present.name, new.name),
            ("host of this machine", here, new.here),
            ("var-directory", present.var_directory, new.var_directory),
        )
        if before != after
    ]
    if changed:
        raise OperatorError(
            f"host {here} can't take the cluster file over",
            f"{path} and the file that was sent differ in {'; '.join(changed)}",
            "stop the host, and replace the file there",
            ExitCode.REFUSED,
        )
    return new


def replace(present: Cluster, home: Path, text: str, replaces: str) -> bool:
    """Replace this host's cluster file; return False if it has that text already.

    The old one is kept beside it.

    Args:
        replaces: digest of the file as the sender knows it.

    Raises OperatorError as ``check``; exit 8, the file has changed since the sender read it, or
    can't be written.
    """
    path = present.source
    own = path.read_text("utf-8")
    if own == text:
        return False
    if digest(own) != replaces:
        raise OperatorError(
            f"the cluster file of host {present.here} has changed meanwhile",
            f"{path} there is not the file that was compared",
            "repeat the command",
            ExitCode.REFUSED,
        )
    new = check(present, home, text)
    write(path, text)
    note_earlier(new, [digest(own)])
    return True


def write(path: Path, text: str) -> None:
    """Write a cluster file; another text is kept beside it.  Raises OperatorError (exit 8)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o644
        if path.exists():
            mode = path.stat().st_mode & 0o777
            shutil.copy2(path, path.with_name(path.name + KEPT_SUFFIX))
        write_atomically(path, text, mode)
    except OSError as error:
        raise _unusable(path, error) from error


def difference(before: str, after: str, was: str, becomes: str) -> list[str]:
    """Return a unified diff of two cluster files, by lines; empty if they are the same."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), was, becomes, lineterm="")
    return list(lines)


@contextlib.contextmanager
def _beside(path: Path, text: str) -> Iterator[Path]:
    """Make a file with a text in the folder of another: relative paths mean the same there."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        yield Path(name)
    except OSError as error:
        raise _unusable(path, error) from error
    finally:
        os.unlink(name)


def _unusable(path: Path, error: OSError) -> OperatorError:
    return OperatorError(
        "the cluster file can't be replaced",
        f"{error.filename or path}: {error.strerror}",
        f"the agent's user must be able to write in {path.parent}",
        ExitCode.REFUSED,
    )
