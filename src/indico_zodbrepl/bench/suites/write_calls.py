"""Parse strace output into system calls and count them.  Pure."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

WRITES = frozenset({"write", "pwrite64", "writev", "pwritev", "pwritev2"})
SYNCS = frozenset({"fsync", "fdatasync"})
OTHERS = frozenset({"sync_file_range", "ftruncate"})
SUBMIT = "io_submit"
TRACED = (*sorted(WRITES | SYNCS | OTHERS), SUBMIT)

_LINE = re.compile(r"(?P<pid>\d+) +(?P<rest>.*)")
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)")
_UNFINISHED = re.compile(r"(?P<begun>.*?) *<unfinished \.\.\.>")
_CALL = re.compile(
    r"(?P<name>\w+)\((?:(?P<fd>\d+)<(?P<path>(?:[^<>]|<[^<>]*>)*)>(?:\(deleted\))?)?"
    r".*\) += (?P<result>-?\d+|\?)"
)
_SUBMITTED = re.compile(
    r"aio_lio_opcode=IOCB_CMD_(?P<what>PWRITEV?|FSYNC|FDSYNC)\b"
    r".*?aio_fildes=\d+<(?P<path>[^>]*)>(?:.*?aio_nbytes=(?P<bytes>\d+))?"
)
_DEVICES = (PurePosixPath("/dev"), PurePosixPath("/dev/pts"))
_DELETED = "(deleted)"


@dataclasses.dataclass(frozen=True)
class Call:
    """A successful system call.

    Attributes:
        path: as strace prints it: a file, or for example ``socket:[1]``.
        result: bytes written; 0 for other calls.
    """

    name: str
    path: str
    result: int


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """Yield the successful calls of ``TRACED`` in the output of ``strace -f -y``.

    Calls interrupted by another thread's output are joined.  Calls that began before strace
    attached or did not finish before it detached are left out, as are other lines.
    """
    begun: dict[str, str] = {}
    for line in lines:
        matched = _LINE.match(line.rstrip("\n"))
        if not matched:
            continue
        pid, rest = matched["pid"], matched["rest"]
        if unfinished := _UNFINISHED.fullmatch(rest):
            begun[pid] = unfinished["begun"]
            continue
        if resumed := _RESUMED.fullmatch(rest):
            first = begun.pop(pid, "")
            if not first.startswith(f"{resumed['name']}("):
                continue
            rest = first + resumed["rest"]
        yield from _made(rest)


def _made(text: str) -> Iterator[Call]:
    matched = _CALL.match(text)
    if not matched or matched["result"] == "?" or int(matched["result"]) < 0:
        return
    name, result = matched["name"], int(matched["result"])
    if name == SUBMIT:
        for each in _SUBMITTED.finditer(text):
            what = {"FSYNC": "fsync", "FDSYNC": "fdatasync"}.get(each["what"], "pwrite64")
            yield Call(what, each["path"], int(each["bytes"] or 0))
    elif name in TRACED and matched["path"] is not None:
        yield Call(name, matched["path"], result if name in WRITES else 0)


TEMPORARY = "temporary file"
_KINDS = (
    (re.compile(r"\.tmp$|/base/\d+/t\d+_\d+"), TEMPORARY),
    (re.compile(r"/pg_wal/|-wal$|/ib_logfile\d+$|/aria_log"), "write-ahead log"),
    (re.compile(r"/[\w-]*bin(log)?\.(\d+|index|state)$"), "binary log"),
    (re.compile(r"-journal$|/undo\d+$"), "rollback journal"),
    (re.compile(r"\.index(\.index_tmp|_tmp)?$"), "index"),
    (re.compile(r"\.(pid|lock|log|err|json|conf|process)$"), "other"),
)
DATA_KINDS = ("data", "write-ahead log", "binary log", "rollback journal", "index", "other")
"""The kinds of files that stay in data directories; the metrics count these."""


def kind(path: str, data: PurePosixPath) -> str:
    """Return the kind of a file.

    Args:
        data: the folder with the data directories of all nodes.
    """
    if not path.startswith("/"):
        return path.partition(":")[0].strip("<")
    bare = PurePosixPath(path.removesuffix(_DELETED).strip())
    if data in bare.parents:
        return next((name for pattern, name in _KINDS if pattern.search(str(bare))), "data")
    if data.parent in bare.parents:
        return "program log"
    return "device" if bare.parent in _DEVICES else TEMPORARY


@dataclasses.dataclass
class Counts:
    """The operations on files of one kind.

    Attributes:
        sizes: number of writes by size in bytes.
        others: number of calls by other name.
    """

    sizes: Counter[int] = dataclasses.field(default_factory=Counter)
    others: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def writes(self) -> int:
        return self.sizes.total()

    @property
    def written(self) -> int:
        """Return the bytes written."""
        return sum(size * count for size, count in self.sizes.items())

    @property
    def syncs(self) -> int:
        return sum(self.others[name] for name in SYNCS)


def counted(found: Iterable[Call], data: PurePosixPath) -> dict[str, Counts]:
    """Return the calls counted by kind of file."""
    counts: defaultdict[str, Counts] = defaultdict(Counts)
    for call in found:
        of_kind = counts[kind(call.path, data)]
        if call.name in WRITES:
            of_kind.sizes[call.result] += 1
        else:
            of_kind.others[call.name] += 1
    return dict(counts)


def median_size(counts: Iterable[Counts]) -> float | None:
    """Return the median size of all writes in bytes, or None."""
    every = [size for each in counts for size in each.sizes.elements()]
    return statistics.median_low(every) if every else None


def histogram(sizes: Mapping[int, int]) -> dict[str, int]:
    """Return the number of writes by power of two that bounds their size, as text."""
    found: Counter[int] = Counter()
    for size, count in sizes.items():
        found[1 << max(size - 1, 0).bit_length()] += count
    return {str(most): found[most] for most in sorted(found)}
