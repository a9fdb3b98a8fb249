"""Logs in a cluster of several hosts."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from typing import cast

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.local_logs import LocalLogs
from indico_zodbrepl.host.logs_interface import Logs, LogWarnings
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.host.remote.codec import LOGS
from indico_zodbrepl.host.remote.identities import of_hosts
from indico_zodbrepl.host.remote.parts import SeveralHostsPart

LIST_SECONDS = 1.5
"""For all hosts to list their logs, while a page waits."""
READ_SECONDS = 5.0
"""For all hosts to search their logs, while a page waits."""


class SeveralLogs(SeveralHostsPart):
    """See ``logs_interface.Logs``: each call goes to its host."""

    prefix = LOGS

    def _host_of(self, method: str, arguments: Mapping[str, object]) -> str:
        del method
        return str(arguments["host"])

    def every(self) -> Mapping[str, list[str] | OperatorError]:
        return of_hosts(self._names(), cast(Logs, self).programs, LIST_SECONDS)

    def every_warning(
        self, begins: float, ends: float
    ) -> Mapping[str, LogWarnings | OperatorError]:
        ask = cast(Logs, self).warnings
        return of_hosts(self._names(), lambda host: ask(host, begins, ends), READ_SECONDS)

    def whole(self, host: str, program: str) -> Iterator[bytes]:
        if host == self._cluster.here:
            return LocalLogs(self._cluster).whole(host, program)
        client = AgentClient(self._cluster, self._cluster.host(host))
        return client.download(f"/logs/{urllib.parse.quote(program, safe='')}")

    def _names(self) -> list[str]:
        return [host.name for host in self._cluster.hosts]
