"""Backups in a cluster of several hosts: of each node, in a folder of each host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.backup import BackupFolder
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.remote import codec
from indico_zodbrepl.host.remote.codec import BACKUPS

OF_NODE = frozenset({"stage"})
"""Methods that fetch a backup for a node; others with a folder of backups run on its host."""


class SeveralBackups:
    """See ``data_interface.Backups``: each call goes to the host of its folder, or of its node.

    Args:
        call: calls a method of the host interface on a host.
    """

    def __init__(
        self, cluster: Cluster, call: Callable[[str, str, Mapping[str, object]], Any]
    ) -> None:
        self._cluster = cluster
        self._call = call

    def __getattr__(self, method: str) -> Callable[..., Any]:
        signature = codec.signatures().get(BACKUPS + method)
        if signature is None:
            raise AttributeError(method)

        def call(*values: object, **named: object) -> Any:
            arguments = signature.bind(values, named)
            host = self._host_of(method, arguments)
            try:
                return self._call(host, BACKUPS + method, arguments)
            except HostAwayError:
                raise  # it names the host
            except OperatorError as error:
                if host != self._cluster.here:
                    where = f"host {host}"
                    error.detail = f"{where}: {error.detail}" if error.detail else f"on {where}"
                raise

        return call

    def _host_of(self, method: str, arguments: Mapping[str, object]) -> str:
        folder = arguments.get("folder")
        if isinstance(folder, BackupFolder) and method not in OF_NODE:
            return folder.host
        return str(node_named(self._cluster, str(arguments["name"])).on)
