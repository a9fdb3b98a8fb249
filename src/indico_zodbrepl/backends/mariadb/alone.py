"""A server on an ended node's data, for this program alone."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from ...cluster import Cluster, Node
from ...errors import ExitCode, OperatorError
from ...probing.wire import ProbeError
from ..interfaces import Alone
from ..serving_alone import serving
from . import client_files, names, programs
from .positions import lacks, log_of
from .sessions import at_socket

ANSWER_SECONDS = 5.0
# What counts more than the options of the node.  The log stays on: a kill may have left
# transactions that are known to be committed by it alone.
_OPTIONS = ("--skip-networking", "--skip-slave-start", "--read-only=ON", "--init-file=",
            "--event-scheduler=OFF", "--rpl-semi-sync-master-enabled=OFF",
            "--rpl-semi-sync-slave-enabled=OFF", "--init-rpl-role=MASTER")


@contextlib.contextmanager
def opened(cluster: Cluster, node: Node, upstream: Node, deadline: float) -> Iterator[Alone]:
    """See ``Engine.open_alone``.

    Raises:
        OperatorError: exit 7, it does not answer in time, or the upstream does not; exit 8, its
            data is of no use, or somebody else has it open.
    """
    with tempfile.TemporaryDirectory(prefix="zodbrepl-") as name:  # of mode 0700
        path = Path(name) / "socket"
        with _serving(cluster, node, path, deadline):
            logged = _last_logged(path)
            lacking = lacks(logged, log_of(cluster, upstream))
            yield Alone(client_files.alone_conf(cluster, path), contained=not lacking,
                        needs_copy=lacking and f"its log has {lacking}, which that of node "
                                               f"{upstream.name} lacks")


def _serving(cluster: Cluster, node: Node, socket: Path,
             deadline: float) -> AbstractContextManager[None]:
    options = names.my_cnf(node)
    base = (f"--defaults-file={options}",) if options.exists() else (
        "--no-defaults", f"--datadir={names.data_folder(node)}", "--log-bin=binlog")
    as_root = (f"--user={names.administrator()}",) if os.geteuid() == 0 else ()
    command = (programs.find(names.settings(cluster)).path(programs.SERVER), *base, *_OPTIONS,
               f"--socket={socket}", *as_root)

    def answers(until: float) -> None:
        with at_socket(socket, until) as server:
            server.rows("SELECT 1")

    return serving(node, command, node.data_directory, answers, deadline, tells="[ERROR]")


def _last_logged(socket: Path) -> str:
    try:
        with at_socket(socket, time.monotonic() + ANSWER_SECONDS) as server:
            return str(server.row("SELECT @@GLOBAL.gtid_binlog_pos AS gtid")["gtid"])
    except (ProbeError, OSError) as error:
        raise OperatorError("what an ended server logged last can't be read", str(error),
                            exit_code=ExitCode.TIMED_OUT) from error
