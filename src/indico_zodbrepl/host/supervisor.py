"""A client of supervisord over its unix socket, with a time limit.

The socket has no password, so no error text here can hold one.
"""

from __future__ import annotations

import dataclasses
import http.client
import socket
import time
import xml.parsers.expat
import xmlrpc.client
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import read_end
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY
from indico_zodbrepl.probing.process_state import command_line
from indico_zodbrepl.probing.waiting import wait_until

# A stopped supervisord accepts connections but never answers.
ANSWER_SECONDS = 2.0  # for queries
PATIENCE = 20.0  # for starting and stopping programs, which may be slow on a busy machine
JUST_STARTED = 2  # seconds ago, of which supervisord knows only the whole ones

# Of supervisor's XML-RPC interface; its own module of them is slow to import.
SHUTDOWN_STATE, ALREADY_STARTED, NOT_RUNNING = 6, 60, 70

NOT_KNOWN = "not known to supervisord yet"
"""The description of a program that the cluster file has gained since the last ``up``."""


@dataclasses.dataclass(frozen=True)
class ProgramState:
    """A supervised program.

    Attributes:
        state: supervisor's state (RUNNING, STARTING, STOPPED, BACKOFF, EXITED, FATAL, STOPPING,
            UNKNOWN), or UNREACHABLE if supervisord did not answer.
        pid: None unless it runs.
        description: one line for people.
        exit_status: of its last run; None if unknown.
        stopped_at: end of its last run, seconds since 1970; None if unknown.
    """

    name: str
    state: str
    pid: int | None
    description: str
    exit_status: int | None = None
    stopped_at: float | None = None


class SupervisorAwayError(OperatorError):
    """supervisord is not running: nothing listens on its socket."""


class SupervisorSilentError(OperatorError):
    """supervisord has its socket open but did not answer in time, or is about to exit."""


class Supervisor:
    """The supervisord of a cluster.

    Each method makes a connection that takes ``seconds`` at most; ``stop`` makes some.  All raise
    SupervisorAwayError or SupervisorSilentError; any thread may use an object of its own.
    """

    def __init__(self, cluster: Cluster, seconds: float = PATIENCE) -> None:
        self._cluster = cluster
        self._layout = Layout(cluster)
        self._seconds = seconds

    def pid(self) -> int:
        """Return its PID, as it reports it."""
        return int(self._call("getPID"))

    def states(self) -> dict[str, ProgramState]:
        """Return the states of all programs it knows, by name."""
        return {
            info["name"]: ProgramState(
                info["name"],
                info["statename"],
                info["pid"] or None,
                info["description"],
                info["exitstatus"],
                float(info["stop"]) or None,
            )
            for info in self._call("getAllProcessInfo")
        }

    def start(self, program: str) -> bool:
        """Start a program without waiting for it; return False if it was running."""
        return self._change("startProcess", program, ALREADY_STARTED, False)

    def stop(self, program: str) -> bool:
        """Ask a program to stop without waiting for it; return False if it was not running.

        Supervisor starts a program that has just died again right after its answer, so it is asked
        twice: see ``mainloop`` in supervisor/supervisord.py, where transitions follow the answers.
        """
        asked = any(self._change("stopProcess", program, NOT_RUNNING, False) for _ in range(2))
        if asked:
            self._repeat_if_just_started(program)
        return asked

    def _repeat_if_just_started(self, program: str) -> None:
        """Send the stop signal again if supervisord's child may have lost it.

        Until the child executes the program it has supervisord's handlers.  They only record a
        signal, and the record does not survive the execution.
        """
        info = self._call("getProcessInfo", program)
        if not info["pid"] or info["now"] - info["start"] > JUST_STARTED:
            return
        own, deadline = command_line(self.pid()), time.monotonic() + self._seconds
        wait_until(lambda: command_line(info["pid"]) != own, deadline, poll=0.01)
        found = next(each for each in self._call("getAllConfigInfo") if each["name"] == program)
        self.signal(program, str(found["stopsignal"]))

    def signal(self, program: str, name: str) -> bool:
        """Send a signal to a program; return False if it was not running.

        Args:
            program: its name.
            name: of the signal, without SIG; or its number.
        """
        return self._change("signalProcess", program, NOT_RUNNING, name)

    def reload(self) -> tuple[list[str], list[str], list[str]]:
        """Read the configuration again; return the added, changed and removed programs.

        They are not affected before ``add`` or ``remove``.
        """
        ((added, changed, removed),) = self._call("reloadConfig")
        return added, changed, removed

    def add(self, program: str) -> None:
        """Add a program to the supervised ones."""
        self._call("addProcessGroup", program)

    def remove(self, program: str) -> None:
        """Remove a program that has exited."""
        self._call("removeProcessGroup", program)

    def _change(self, method: str, program: str, already: int, argument: bool | str) -> bool:
        try:
            self._call(method, program, argument)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != already:
                raise OperatorError(
                    f"supervisord refused {method} of {program}",
                    fault.faultString,
                    f"see {self._layout.supervisord_log}",
                ) from fault
            return False
        return True

    def _call(self, method: str, *arguments: Any) -> Any:
        path = self._layout.supervisor_socket
        proxy = xmlrpc.client.ServerProxy("http://localhost", _Transport(path, self._seconds))
        try:
            with proxy:
                return getattr(proxy.supervisor, method)(*arguments)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise SupervisorAwayError(
                SUPERVISOR_AWAY,
                f"nothing listens on {path}",
                Commands.here(self._cluster).zodbrepl("up"),
                ExitCode.NOT_RUNNING,
            ) from error
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != SHUTDOWN_STATE:
                raise
            raise SupervisorSilentError(
                "supervisord is about to end",
                fault.faultString,
                "try again in a moment",
                ExitCode.TIMED_OUT,
            ) from fault
        except (
            OSError,
            http.client.HTTPException,
            xmlrpc.client.ProtocolError,
            xml.parsers.expat.ExpatError,
        ) as error:
            raise SupervisorSilentError(
                "supervisord does not answer",
                f"{path}: {error or type(error).__name__}",
                self._hint(error),
                ExitCode.TIMED_OUT,
            ) from error

    def _hint(self, error: Exception) -> str:
        if isinstance(error, PermissionError):
            return "it is another user's; run this as that user"
        pid = _read_pid(self._layout.supervisord_pid)
        return f"is its process stopped? then: kill -CONT {pid}" if pid else ""


def program_states(cluster: Cluster, seconds: float = ANSWER_SECONDS) -> dict[str, ProgramState]:
    """Return the state of each program of a cluster, by name.

    Takes ``seconds`` at most and never raises for a supervisord that is away or frozen:
    each program is UNREACHABLE then, which says nothing about whether it runs.
    """
    names = cluster.program_names()
    try:
        known = Supervisor(cluster, seconds).states()
    except (SupervisorAwayError, SupervisorSilentError) as error:
        return {name: ProgramState(name, "UNREACHABLE", None, error.notice) for name in names}
    missing = {
        name: ProgramState(name, "STOPPED", None, NOT_KNOWN) for name in names if name not in known
    }
    return known | missing


def is_away(cluster: Cluster) -> bool:
    """Return True if a cluster has no supervisord: nothing listens on its socket.

    False for one that merely does not answer.
    """
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(ANSWER_SECONDS)
        try:
            peer.connect(str(Layout(cluster).supervisor_socket))
        except (FileNotFoundError, ConnectionRefusedError):
            return True
        except OSError:
            return False
    return False


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


class _Transport(xmlrpc.client.Transport):
    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__()
        self._path = path
        self._seconds = seconds

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = _UnixConnection(self._path, self._seconds)
        self._connection = host, connection  # ``close`` of the base class uses this attribute
        return connection


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(bytes(self._path))


BYTES = 32 * 1024
SHOWN_LINES = 12
REFUSAL_LINES = 60
WORDS = ("NOTICE", "DETAIL", "HINT")


def log_tail(cluster: Cluster, program: str) -> str:
    """Return the last lines of a program's log, for people."""
    path = Layout(cluster).program_log(program)
    if not path.exists():
        return f"{path} does not exist"
    lines = _last_lines(path)[-SHOWN_LINES:]
    return "\n".join(["its last log lines:", *(f"  {line}" for line in lines)])


def last_refusal(log: Path) -> OperatorError | None:
    """Return the last OperatorError in a log, in the format of ``str``.

    A hint is one line; later lines belong to the next start.  None without an error or a log.
    """
    try:
        lines = _last_lines(log)
    except OSError:
        return None
    starts = [number for number, line in enumerate(lines) if line.startswith("NOTICE: ")]
    if not starts:
        return None
    parts: dict[str, list[str]] = {}
    key = ""
    for line in lines[starts[-1] :][:REFUSAL_LINES]:
        word, _, rest = line.partition(": ")
        if word in WORDS and word not in parts:
            key = word
            parts[key] = [rest]
        elif key == WORDS[-1]:
            break
        else:
            parts[key].append(line)
    notice, detail, hint = ("\n".join(parts.get(word, [])) for word in WORDS)
    return OperatorError(notice, detail, hint, ExitCode.REFUSED)


def _last_lines(log: Path) -> list[str]:
    """Return the last lines of a file.  Raises OSError."""
    return read_end(log, BYTES)[0].decode("utf-8", "replace").splitlines()
