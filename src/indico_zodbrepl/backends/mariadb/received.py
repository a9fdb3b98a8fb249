"""The last transaction that a replica had received, and confirmed, before its server restarted.

A replica confirms a transaction that is in its relay log.  A start of replication by GTID discards
that log, also what was not applied yet, and asks the upstream again.  If that is lost too, the
replica lacks commits that it has confirmed.  So the end of the relay log is recorded before each
start; until the replica has received as much again, it proves nothing about acknowledged commits.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import BinaryIO

from indico_zodbrepl.backends.mariadb import config
from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.files import write_atomically

# https://mariadb.com/kb/en/2-binlog-event-header/ and https://mariadb.com/kb/en/gtid_event/
MAGIC = b"\xfebin"
HEADER = struct.Struct("<IBIIIH")  # time, type, server, length with this, next position, flags
NUMBER = struct.Struct("<Q")
QUERY, XID, GTID = 2, 16, 162
IN_USE = 1
"""Flag of the first event of a binary log: the server that writes it has not closed it."""


def record(node: Node, epoch: int) -> None:
    """Record the end of a stopped replica's relay log, and remove the log.

    No server may use the log: its port was found free.  The start of replication would remove it.
    Its files of positions go too: a loss of power can leave them empty, and then no statement lets
    the server follow anybody.

    Args:
        epoch: in which the server starts; a record of another one counts no more.

    Raises OSError.
    """
    folder = config.data_folder(node)
    logs = sorted(folder.glob("relay.[0-9]*"))
    number = max([_number(node, epoch), *map(last_number, logs)])
    if number:
        values = {"epoch": epoch, "number": number}
        write_atomically(config.received_file(node), json.dumps(values) + "\n")
    rest = [folder / name for name in ("relay.index", "relay-log.info", "master.info")]
    for path in (*logs, *rest):
        path.unlink(missing_ok=True)


def forget(node: Node) -> None:
    """Forget the record of data that were replaced by a copy of the upstream's.  Raises OSError."""
    config.received_file(node).unlink(missing_ok=True)


def doubt(node: Node, epoch: int, number: int) -> str:
    """Return why a replica may lack commits that it has confirmed; empty if it has them.

    Args:
        epoch: of its state.
        number: sequence number of the last transaction that it has.
    """
    before = _number(node, epoch)
    if number >= before:
        return ""
    return f"before its last start it had received transaction {before}, and now it has {number}"


def _number(node: Node, epoch: int) -> int:
    """Return the recorded sequence number; 0 if there is none of this epoch."""
    try:
        values = json.loads(config.received_file(node).read_text("ascii"))
        return int(values["number"]) if values["epoch"] == epoch else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def last_number(log: Path) -> int:
    """Return the sequence number of the last whole transaction in a relay log; 0 without one.

    An event that was written in part ends it.  Raises OSError.
    """
    with log.open("rb") as file:
        return _last_number(file) if file.read(len(MAGIC)) == MAGIC else 0


def is_in_use(folder: Path) -> bool:
    """Return True if the newest binary log in a folder was not closed by its server.

    False without one.  Raises OSError.
    """
    logs = sorted(folder.glob("binlog.[0-9]*"))
    if not logs:
        return False
    with logs[-1].open("rb") as file:
        first = file.read(len(MAGIC) + HEADER.size)
    if len(first) < len(MAGIC) + HEADER.size or first[: len(MAGIC)] != MAGIC:
        return True  # it was not even begun
    flags: int = HEADER.unpack_from(first, len(MAGIC))[-1]
    return bool(flags & IN_USE)


def _last_number(file: BinaryIO) -> int:
    size = file.seek(0, 2)
    place, begun, last = len(MAGIC), 0, 0
    while place + HEADER.size <= size:
        file.seek(place)
        _time, kind, _server, length, _next, _flags = HEADER.unpack(file.read(HEADER.size))
        if length < HEADER.size or place + length > size:
            break
        if kind == GTID:
            (begun,) = NUMBER.unpack(file.read(NUMBER.size))
        elif kind in (XID, QUERY) and begun:
            last = max(last, begun)
        place += length
    return last
