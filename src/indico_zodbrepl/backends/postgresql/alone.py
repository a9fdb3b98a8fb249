"""A server on an ended node's data, for this program alone."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

from psycopg.conninfo import make_conninfo

from ...cluster import Cluster, Node
from ..interfaces import Alone
from ..serving_alone import serving
from . import configuration, leftovers, names, rejoining, sql, tools
from .identity import identity

# What counts more than the configuration of the node.
_SETTINGS = ("listen_addresses=", "default_transaction_read_only=on", "autovacuum=off",
             "synchronous_standby_names=", "primary_conninfo=", "primary_slot_name=",
             "archive_mode=off")


@contextlib.contextmanager
def opened(cluster: Cluster, node: Node, upstream: Node, deadline: float) -> Iterator[Alone]:
    """See ``Engine.open_alone``.

    Raises:
        OperatorError: exit 7, it does not answer in time, or the upstream does not; exit 8, its
            data is of no use, or somebody else has it open.
    """
    leftovers.clear(node)
    if rejoining.is_contained(cluster, node, upstream):
        yield Alone(None, contained=True)
        return
    with _serving(cluster, node, deadline) as conf:
        yield Alone(conf, contained=False)


@contextlib.contextmanager
def _serving(cluster: Cluster, node: Node, deadline: float) -> Iterator[str]:
    """A server that only its socket leads to; the text of a ZODB configuration."""
    who, folder = identity(), names.data_folder(node)
    own, port = names.settings(cluster), str(node.storage_port)
    with tempfile.TemporaryDirectory(prefix="zodbrepl-") as name:  # of mode 0700
        place = Path(name)
        (place / "hba").write_text(f"local all {names.SUPERUSER} trust\n")
        who.take_over(place)
        settings = (*_SETTINGS, f"unix_socket_directories={place}", f"hba_file={place}/hba")
        command = who.command(tools.of_data(cluster, folder), "postgres", folder, "-D", "{data}",
                              *(part for each in settings for part in ("-c", each)))
        conninfo = make_conninfo(host=str(place), port=port, user=names.SUPERUSER,
                                 dbname=own.database, application_name="zodbrepl")

        def answers(until: float) -> None:
            sql.query(conninfo, until, "SELECT 1")

        with serving(node, command, folder, answers, deadline, environment=tools.environment(),
                     end=signal.SIGINT):
            yield configuration.node_conf(
                cluster, f"dbname='{own.database}' user='{names.SUPERUSER}' "
                f"host='{place}' port='{port}'")
