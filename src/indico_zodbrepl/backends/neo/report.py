"""The report of a NEO monitor, asked on this host and decoded."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from indico_zodbrepl.backends.neo import config
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.probing import control_sockets, tid
from indico_zodbrepl.probing.reading import clean
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

# Age in seconds after which a NEO monitor's last check is outdated.
STALE_SECONDS = 15.0


@dataclasses.dataclass(frozen=True)
class Process:
    """A process that the cluster knows; ``kind`` is master, storage, admin or client."""

    kind: str
    address: str
    id: str
    state: str


@dataclasses.dataclass(frozen=True)
class Table:
    """The partition table.

    Attributes:
        replicas: copies wanted beyond the first.
        up_to_date: working copies of the partition that has the fewest.
        cells: by address of a storage, the number of its cells in each state.
        rows: for each partition, the addresses of the working storages that have it up to date.
    """

    number: int
    partitions: int
    replicas: int
    up_to_date: int
    cells: Mapping[str, Mapping[str, int]]
    rows: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Deed:
    """An entry of the NEO monitor's action log; ``at`` in seconds since 1970."""

    at: float
    what: str
    address: str
    reason: str
    result: str


@dataclasses.dataclass(frozen=True)
class Known:
    """A report of the NEO monitor; addresses are ``host:port``.

    Attributes:
        began: start of its check, seconds since 1970; everything else is at least that recent.
        failure: why the admin node or the cluster does not answer; None if it does.
        primary: the leading master.
        last_tid: the last transaction; None while the leading master does not report it.
        silence: seconds without an answer, of the silent processes.
        pings: answers, refuses or silent, of each master and storage.
        writable: True if a write would succeed.
        sizes: bytes of the databases on the NEO monitor's host.
    """

    began: float
    cluster_state: str | None
    failure: str | None
    primary: str | None
    processes: tuple[Process, ...]
    table: Table | None
    last_tid: int | None
    silence: Mapping[str, float]
    pings: Mapping[str, str]
    hung_after: float
    writable: bool
    sizes: Mapping[str, int]
    problems: tuple[str, ...]
    deeds: tuple[Deed, ...]

    def process(self, address: str) -> Process | None:
        return next((each for each in self.processes if each.address == address), None)

    def clients(self) -> int:
        return sum(each.kind == "client" for each in self.processes)


def ask(cluster: Cluster, deadline: float) -> Known:
    """Return the first answer of a NEO monitor of this host.

    Args:
        deadline: a moment of ``time.monotonic``.

    Raises:
        ProbeError: none answers, or the answer is outdated.
    """
    failure = ProbeError(FailureKind.UNREACHABLE, "there is no admin node on this host")
    for node in config.of_role(cluster, Role.ADMIN):
        if not cluster.is_here(node):
            continue
        try:
            return known(_converse(node, deadline), time.time())
        except ProbeError as error:
            failure = error
    raise failure


def known(raw: bytes, now: float) -> Known:
    """Decode a NEO monitor's answer.  Raises ProbeError."""
    try:
        answer = json.loads(raw)
        asked = float(answer["asked"])
        found = _known(answer)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProbeError(
            FailureKind.MALFORMED,
            f"the NEO monitor's answer is not understood: {clean(repr(error))}",
        ) from None
    if now - asked > STALE_SECONDS:
        raise ProbeError(
            FailureKind.SILENT, f"the NEO monitor has not looked for {now - asked:.0f} s"
        )
    return found


def _known(answer: Mapping[str, Any]) -> Known:
    last = answer["last_tid"]
    return Known(
        began=float(answer["began"]),
        cluster_state=_text(answer["cluster_state"]),
        failure=_text(answer["failure"]),
        primary=_text(answer["primary"]),
        processes=tuple(
            Process(
                str(each["type"]),
                _text(each["address"]) or "",
                clean(str(each["id"])),
                clean(str(each["state"])),
            )
            for each in answer["nodes"]
        ),
        table=None if answer["partitions"] is None else _table(answer["partitions"]),
        last_tid=None if last is None else tid.parse(str(last)),
        silence={clean(key): float(value) for key, value in answer["silence"].items()},
        pings={
            clean(key): str(value) for key, value in answer["pings"].items() if value is not None
        },
        hung_after=float(answer["hung_after"]),
        writable=answer["writable"] is True,
        sizes={clean(key): int(value) for key, value in answer["sizes"].items()},
        problems=tuple(clean(str(each)) for each in answer["problems"]),
        deeds=tuple(_deeds(answer["deeds"])),
    )


def _table(values: Mapping[str, Any]) -> Table:
    return Table(
        int(values["table"]),
        int(values["count"]),
        int(values["replicas"]),
        int(values["up_to_date"]),
        {
            clean(address): {clean(state): int(count) for state, count in cells.items()}
            for address, cells in values["cells"].items()
        },
        tuple(tuple(clean(str(each)) for each in row) for row in values["rows"]),
    )


def _deeds(values: Iterable[Mapping[str, Any]]) -> Iterable[Deed]:
    for each in values:
        yield Deed(
            float(each["time"]),
            clean(str(each["deed"])),
            clean(str(each["address"])),
            clean(str(each["reason"])),
            clean(str(each["result"])),
        )


def _text(value: object) -> str | None:
    return None if value is None else clean(str(value))


def _converse(node: Node, deadline: float) -> bytes:
    try:
        return control_sockets.ask(node, b'{"do": "status"}\n', deadline)
    except control_sockets.FolderError as error:
        raise ProbeError(
            FailureKind.UNREACHABLE,
            f"no NEO monitor's folder on this host: {node.data_directory}: {error.strerror}",
        ) from None
    except TimeoutError:
        raise ProbeError(FailureKind.SILENT, "the NEO monitor does not answer") from None
    except ConnectionAbortedError:
        raise ProbeError(FailureKind.CLOSED, "the NEO monitor gave no whole answer") from None
    except OSError as error:
        raise ProbeError(
            FailureKind.REFUSED, f"the NEO monitor does not run: {error.strerror}"
        ) from None
