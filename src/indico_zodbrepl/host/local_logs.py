"""The logs of this host's programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import log_files
from indico_zodbrepl.host.logs_interface import MOST_LINES, LogPart, LogWarnings


class LocalLogs:
    """See ``logs_interface.Logs``; each call is about this host."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def programs(self, host: str) -> list[str]:
        del host
        return list(self._paths())

    def part(
        self,
        host: str,
        program: str,
        *,
        text: str = "",
        most: int = MOST_LINES,
        warnings: bool = False,
    ) -> LogPart:
        del host
        path = self._path(program)
        try:
            return log_files.end_of(path, text, most, warnings=warnings)
        except OSError as error:
            raise _unreadable(path, error) from error

    def warnings(self, host: str, begins: float, ends: float) -> LogWarnings:
        return log_files.lines(Layout(self._cluster).log, begins, ends, host)

    def every(self) -> Mapping[str, list[str] | OperatorError]:
        return {"": self.programs("")}

    def every_warning(
        self, begins: float, ends: float
    ) -> Mapping[str, LogWarnings | OperatorError]:
        return {"": self.warnings("", begins, ends)}

    def whole(self, host: str, program: str) -> Iterator[bytes]:
        del host
        path = self._path(program)
        try:
            return log_files.masked_blocks(path.open("rb"))
        except OSError as error:
            raise _unreadable(path, error) from error

    def _paths(self) -> dict[str, Path]:
        return {path.stem: path for path in sorted(Layout(self._cluster).log.glob("*.log"))}

    def _path(self, program: str) -> Path:
        found = self._paths().get(program)
        if found is None:
            where = "this host" if self._cluster.here is None else f"host {self._cluster.here}"
            raise OperatorError(
                f"{where} has no log of a program {program}", exit_code=ExitCode.REFUSED
            )
        return found


def _unreadable(path: Path, error: OSError) -> OperatorError:
    return OperatorError("the log cannot be read", f"{path}: {error.strerror}")
