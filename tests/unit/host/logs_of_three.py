"""The logs of three hosts as pages see them; the agent of one does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.logs_interface import LogPart


class LogsOfThree:
    """Logs of three hosts, of which h3 is away."""

    away = HostAwayError(
        "host h3 does not answer", "its agent at 10.77.0.13:8140: no answer in time"
    )

    def every(self) -> dict[str, list[str] | OperatorError]:
        return {"h1": ["etcd", "node-a"], "h2": ["etcd", "node-b"], "h3": self.away}

    def programs(self, host: str) -> list[str]:
        found = self.every()[host]
        if isinstance(found, OperatorError):
            raise found
        return found

    def part(self, host: str, program: str, *, text: str, warnings: bool) -> LogPart:
        del text, warnings
        return LogPart(Path("/srv/var/log") / f"{program}.log", (f"{program} of {host}",), False)

    def whole(self, host: str, program: str) -> Iterator[bytes]:
        yield f"{program} of {host}".encode()
        raise AssertionError("only the first part is asked for before the answer begins")
