"""Positions in servers' logs: MariaDB's global transaction ids, domain-server-number."""

from __future__ import annotations

import re
import time

from ...cluster import Cluster, Node
from ...errors import ExitCode, OperatorError
from ...probing.wire import ProbeError
from .asking import asking_user
from .sessions import session

ANSWER_SECONDS = 5.0
_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")


def lacks(position: str, log: str) -> str:
    """What of a position another server's log lacks; empty when it has all of it.

    Args:
        position: the last transaction of each domain.
        log: the last transaction of each domain and server; what came before, it has.
    """
    has = {(domain, server): int(number) for domain, server, number in _GTID.findall(log)}
    return ",".join(found[0] for found in _GTID.finditer(position)
                    if int(found[3]) > has.get((found[1], found[2]), -1))


def last_positions(state: str) -> str:
    """The position that a server's list of each origin's last transactions stands for.

    Args:
        state: domain-server-number, a line each; the highest number of a domain is its last.
    """
    last: dict[str, tuple[int, str]] = {}
    for found in _GTID.finditer(state):
        domain, _, number = found.groups()
        last[domain] = max(last.get(domain, (0, "")), (int(number), found[0]))
    return ",".join(gtid for _, gtid in last.values())


def log_of(cluster: Cluster, upstream: Node) -> str:
    """The last transactions of each domain and server in a server's log.

    Raises OperatorError (exit 7).
    """
    try:
        with session(cluster, upstream, asking_user(cluster, upstream),
                     time.monotonic() + ANSWER_SECONDS) as server:
            return str(server.row("SELECT @@GLOBAL.gtid_binlog_state AS gtid")["gtid"])
    except ProbeError as error:
        raise OperatorError(f"node {upstream.name} can't be asked what it has logged",
                            error.detail, exit_code=ExitCode.TIMED_OUT) from error
