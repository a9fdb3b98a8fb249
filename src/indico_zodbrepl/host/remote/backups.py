"""Backups in a cluster of several hosts: of each node, in a folder of each host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.backup import BackupFolder
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.remote.codec import BACKUPS
from indico_zodbrepl.host.remote.parts import SeveralHostsPart

OF_NODE = frozenset({"stage"})
"""Methods that fetch a backup for a node; others with a folder of backups run on its host."""


class SeveralBackups(SeveralHostsPart):
    """See ``data_interface.Backups``: each call goes to the host of its folder, or of its node."""

    prefix = BACKUPS

    def _ask(self, host: str, method: str, arguments: Mapping[str, object]) -> Any:
        try:
            return super()._ask(host, method, arguments)
        except HostAwayError:
            raise  # it names the host
        except OperatorError as error:
            if host != self._cluster.here:
                where = f"host {host}"
                error.detail = f"{where}: {error.detail}" if error.detail else f"on {where}"
            raise

    def _host_of(self, method: str, arguments: Mapping[str, object]) -> str:
        folder = arguments.get("folder")
        if isinstance(folder, BackupFolder) and method not in OF_NODE:
            return folder.host
        return str(node_named(self._cluster, str(arguments["name"])).on)
