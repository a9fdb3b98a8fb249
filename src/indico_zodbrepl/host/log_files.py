"""Lines of the logs of this host's programs: the newest ones, or the warnings of a period.

Lines without a time, such as those of a traceback, are left out.  Indico's own logs are not read:
they have whole requests of users.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from indico_zodbrepl.cluster.files import read_end
from indico_zodbrepl.host.logs_interface import MOST_LINES, LogLine, LogPart, LogWarnings

MOST_BYTES = 512 * 1024
"""Bytes that are read of each program's log."""
BLOCK = 32 * 1024
"""Bytes that are read to find the time at a place in a log."""
SENT_CHARACTERS = 64 * 1024
"""Least characters of a block of a log that is sent, the last one excepted."""
LEVEL_WITHIN = 60
"""Characters after the time within which a line names its level."""
LINE = re.compile(
    r"\[?(?P<at>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,6}))?\d*"
    r"(?: ?(?P<zone>Z|UTC|[+-]\d\d:?\d\d))?\]? (?=\S)(?P<text>.*)"
)
"""The monitor writes its events with two blanks after the time; these do not match."""
OF_ETCD = re.compile(
    r'\{"level":"(?P<level>\w+)","ts":"(?P<at>[^"]+)"(?:.*?"msg":"(?P<text>(?:[^"\\]|\\.)*)")?'
)
LEVEL = re.compile(r"\b(WARN|WARNING|ERRO|ERROR|CRIT|CRITICAL|FATAL|PANIC)\b|\[Warning\]")
DECISIONS = "automation-"
"""The program that decides about a failover logs its decisions, without a level and in UTC."""
SECRET = re.compile(
    r"((?:passw(?:or)?d|pwd|secret|token|api[_-]?key|access_?key|signature|authorization|\bak)"
    r"[\w-]{0,40}[\"']?\s{0,8}[=:]\s{0,8}(?:bearer |basic )?"
    r"|--password |identified by |\bpassword (?='))"
    r"(\"[^\"]*\"?|'[^']*'?|[^\s\"'&;,]+)",
    re.IGNORECASE,
)
COOKIES = re.compile(r"(cookie[\"']?:\s{0,8}).*", re.IGNORECASE)
LOGIN = re.compile(r"//[^/\s@:]{0,200}:[^\s@]{0,200}@")
MOST_CHARACTERS = 4096
"""Longest part of a line that is shown."""


def lines(folder: Path, begins: float, ends: float, host: str = "") -> LogWarnings:
    """Return the warnings and errors of a period, and the decisions of the automation.

    Args:
        folder: that of the logs; it need not exist.
        begins, ends: seconds since 1970.
        host: the name of this host, for each line.
    """
    found: list[LogLine] = []
    cut = []
    for path in sorted(folder.glob("*.log")):
        try:
            whole = _of_program(path, begins, ends, found)
        except OSError:
            whole = False
        if not whole:
            cut.append(path.stem)
    if host:
        found = [dataclasses.replace(each, host=host) for each in found]
    return LogWarnings(tuple(found), tuple(cut))


def end_of(
    path: Path, text: str = "", most: int = MOST_LINES, *, warnings: bool = False
) -> LogPart:
    """Return the newest matching lines of a log.

    Args:
        text: part of each line, regardless of case.
        warnings: True for lines with the level of a warning or error only.

    Raises OSError.
    """
    content, is_all = read_end(path, MOST_BYTES)
    if not is_all:
        content = content[content.find(b"\n") + 1 :]
    found = [
        shown
        for line in content.decode("utf-8", "replace").splitlines()
        if (not warnings or _is_warning(line))
        and text.casefold() in (shown := masked(line)).casefold()
    ]
    return LogPart(path, tuple(found[-most:]), not is_all or len(found) > most)


def _is_warning(text: str) -> bool:
    line = LINE.match(text) or OF_ETCD.match(text)
    return line is not None and _warns(line)


def masked_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield what a log has now in blocks of whole lines, secrets masked; close it at the end."""
    with stream:
        size = os.fstat(stream.fileno()).st_size
        block: list[str] = []
        length = 0
        while stream.tell() < size:
            line = stream.readline(MOST_BYTES).decode("utf-8", "replace")
            block.append(masked(line.rstrip("\n")) + "\n")
            length += len(block[-1])
            if length >= SENT_CHARACTERS:
                yield "".join(block).encode()
                block, length = [], 0
        if block:
            yield "".join(block).encode()


def _of_program(path: Path, begins: float, ends: float, found: list[LogLine]) -> bool:
    """Add the lines of a program's log and of its rotated files; return False if some may lack."""
    left, latest = MOST_BYTES, 0.0
    for each in reversed(list(_files(path, begins))):
        with each.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(_place(stream.fileno(), size, path.stem, begins))
            content = stream.read(left)
            more = stream.tell() < size
        left -= len(content)
        content = content[: content.rfind(b"\n") + 1] if more else content
        for at, line in _timed(path.stem, content):
            latest = at
            if begins <= at <= ends and (path.stem.startswith(DECISIONS) or _warns(line)):
                found.append(LogLine(at, path.stem, masked(line["text"] or "")))
        if more:
            return latest > ends
    return True


def _files(path: Path, begins: float) -> Iterator[Path]:
    """Yield the files of a log that may have lines from a time on, the newest first."""
    older = [each for each in path.parent.glob(f"{path.name}.*") if each.suffix[1:].isdigit()]
    for each in (path, *sorted(older, key=lambda each: int(each.suffix[1:]))):
        if each.stat().st_mtime < begins:
            return
        yield each


def _place(file: int, size: int, program: str, begins: float) -> int:
    """Return a place in a log before the first line of a time or later, by bisection."""
    low, high = 0, size
    while high - low > BLOCK:
        middle = (low + high) // 2
        at = next((at for at, _line in _timed(program, os.pread(file, BLOCK, middle))), None)
        if at is None or at >= begins:
            high = middle
        else:
            low = middle
    return low


def _timed(program: str, content: bytes) -> Iterator[tuple[float, re.Match[str]]]:
    """Yield the lines with a time, and their time in seconds since 1970."""
    for text in content.decode("utf-8", "replace").split("\n"):
        line = LINE.match(text) or OF_ETCD.match(text)
        if line is None:
            continue
        parts = line.groupdict()
        try:
            at = datetime.datetime.fromisoformat(line["at"])
            if parts.get("zone") not in (None, "UTC"):
                at = datetime.datetime.fromisoformat(line["at"] + line["zone"])
            elif parts.get("zone") or program.startswith(DECISIONS):
                at = at.replace(tzinfo=datetime.UTC)
            seconds = at.timestamp()
        except (ValueError, OverflowError):
            continue
        part = parts.get("part")
        yield seconds + (float(f"0.{part}") if part else 0.0), line


def _warns(line: re.Match[str]) -> bool:
    if line.re is OF_ETCD:
        return line["level"] not in ("debug", "info")
    return LEVEL.search(line["text"], 0, LEVEL_WITHIN) is not None


def masked(text: str) -> str:
    """Return a line with an ellipsis in place of passwords, tokens and the like."""
    clipped = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
    return LOGIN.sub("//…@", SECRET.sub(_masked_value, COOKIES.sub(r"\1…", clipped)))


def _masked_value(found: re.Match[str]) -> str:
    value = found[2]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found[1]}{quote}…{quote}"
