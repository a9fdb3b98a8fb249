"""Processes in namespaces of their own, and the requests to the first of them (``init.py``).

No process of a lab is outside of its namespaces: programs are children of the first process, which
gets the descriptors of their streams.  So a stopped program stops nothing here, and the death of
the first process is the death of all.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from indico_zodbrepl.errors import ExitCode, OperatorError

START_SECONDS = 60.0
GONE_SECONDS = 60.0
ANSWER_SECONDS = 60.0
RUN_SECONDS = 120.0
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CREDENTIALS = struct.Struct("3i")  # unix(7): process, user and group ID
INIT = Path(__file__).with_name("init.py")

Stream = int | IO[Any] | socket.socket
"""``subprocess.DEVNULL``, or something open; standard error may be ``subprocess.STDOUT``."""
Start = Callable[[Sequence[str], int, int], "Ends"]
"""Starts a command with descriptors: its standard input, and a file for both its outputs."""


class Ends(Protocol):
    """A process whose exit can be awaited."""

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


@dataclass(frozen=True)
class Mount:
    """A mount of a host.

    Attributes:
        target: where; missing folders are made.
        source: what is seen there; empty for an empty tmpfs.
        options: of the tmpfs.
    """

    target: str
    source: str = ""
    options: str = ""


def script(path: Path, *arguments: str) -> list[str]:
    """Return the command that runs a file of this package, without its site-packages."""
    return [sys.executable, "-I", "-S", str(path), *arguments]


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of programs in namespaces: this process's, with the folders of root.

    An ordinary user's PATH may lack them.  Each host has its own /tmp; a folder in this one is not
    there.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    inherited["PATH"] = f"{inherited.get('PATH', '')}:{SYSTEM_PATH}".lstrip(":")
    return {**inherited, **(changes or {})}


class Program:
    """A program in namespaces, with the methods of ``subprocess.Popen`` for its exit.

    Attributes:
        pid: its process ID inside.
        returncode: None while it runs; -9 also if its namespaces are gone.
    """

    def __init__(
        self, command: Sequence[str], answers: int, signal_it: Callable[..., None]
    ) -> None:
        self.command = tuple(command)
        self.returncode: int | None = None
        self._answers = answers
        self._received = b""
        self._signal = signal_it
        answer = self._answer(ANSWER_SECONDS)
        if answer is None or "pid" not in answer:
            self._close()
        if answer is None:
            raise OperatorError(
                f"{command[0]} was not started: its host is gone", exit_code=ExitCode.NOT_RUNNING
            )
        if "errno" in answer:
            number = answer["errno"]
            raise OSError(number, os.strerror(number), answer["filename"])
        self.pid: int = answer["pid"]

    def poll(self) -> int | None:
        """Return the exit code, or None while the program runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code when the program has exited.

        Raises subprocess.TimeoutExpired after ``timeout`` seconds.
        """
        if self.returncode is None:
            answer = self._answer(timeout)
            self.returncode = -signal.SIGKILL if answer is None else answer["status"]
            self._close()
        return self.returncode

    def send_signal(self, number: int, *, group: bool = False) -> None:
        """Send it a signal, or its whole process group; do nothing if it has exited."""
        if self.poll() is None:
            self._signal(self.pid, number, group=group)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it with its process group."""
        self.send_signal(signal.SIGKILL, group=True)

    def _answer(self, timeout: float | None) -> dict[str, Any] | None:
        """Return the next answer, or None if there will be none."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._received:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not _readable(self._answers, left):
                raise subprocess.TimeoutExpired(self.command, timeout or 0.0)
            chunk = os.read(self._answers, 1 << 20)
            if not chunk:
                return None
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _close(self) -> None:
        os.close(self._answers)
        self._answers = -1

    def __del__(self) -> None:
        if getattr(self, "_answers", -1) != -1:
            self._close()


class Namespaces:
    """Namespaces with a first process; all processes in them end when this object is closed.

    Args:
        name: in messages.
        options: of unshare(1): which namespaces.
        log: gets what the first process writes.
        start: starts a command, in the namespaces that contain these.
        hostname: empty: it keeps the one outside.
    """

    def __init__(
        self,
        name: str,
        options: Sequence[str],
        *,
        log: Path,
        start: Start,
        hostname: str = "",
        mounts: Sequence[Mount] = (),
    ) -> None:
        self.name = name
        settings = {"hostname": hostname, "mounts": [asdict(each) for each in mounts]}
        command = ["unshare", *options, "--fork", "--kill-child", "--mount-proc"]
        command += ["--propagation", "private", *script(INIT, json.dumps(settings))]
        self._control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with far, log.open("wb") as output:
                # The kernel adds the sender's process ID, as it is seen here.
                self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                self._process = start(command, far.fileno(), output.fileno())
            self.init = self._greeting(log)
        except BaseException:
            self._control.close()
            raise

    def _greeting(self, log: Path) -> int:
        """Return the process ID of the first process, as it is outside."""
        if not _readable(self._control.fileno(), START_SECONDS):
            raise OperatorError(
                f"{self.name} did not start in {START_SECONDS:g} s", exit_code=ExitCode.TIMED_OUT
            )
        message, ancillary, _, _ = self._control.recvmsg(4096, socket.CMSG_SPACE(CREDENTIALS.size))
        if not message:
            self._process.wait(GONE_SECONDS)
            raise OperatorError(
                f"{self.name} did not start", log.read_text(errors="replace").strip()[-2000:]
            )
        [credentials] = [data for _, kind, data in ancillary if kind == socket.SCM_CREDENTIALS]
        pid: int = CREDENTIALS.unpack(credentials)[0]
        return pid

    @property
    def exists(self) -> bool:
        """Return False if they are gone."""
        return self._process.poll() is None

    def popen(
        self,
        *command: str | Path,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = subprocess.DEVNULL,
        stderr: Stream = subprocess.DEVNULL,
        environ: Mapping[str, str] | None = None,
        folder: Path | str = "/",
        privileged: bool = False,
    ) -> Program:
        """Start a program in a session of its own; it dies with the namespaces.

        Args:
            environ: changes of the environment.
            folder: its working directory.
            privileged: an ordinary user's program may change the namespaces too.

        Raises:
            OSError: it cannot be executed.
            OperatorError: exit 6, the namespaces are gone.
        """
        words = [str(word) for word in command]
        request = {
            "do": "run",
            "command": words,
            "environ": environment(environ),
            "folder": str(folder),
            "privileged": privileged,
        }
        with open(os.devnull, "r+b", buffering=0) as null:

            def descriptor_of(stream: Stream) -> int:
                if isinstance(stream, int):
                    return null.fileno() if stream == subprocess.DEVNULL else stream
                return stream.fileno()

            errors = stdout if stderr == subprocess.STDOUT else stderr
            streams = [descriptor_of(each) for each in (stdin, stdout, errors)]
            answers = self._request(request, *streams)
        return Program(words, answers, self._signal)

    def run(
        self,
        *command: str | Path,
        text: str = "",
        timeout: float = RUN_SECONDS,
        check: bool = True,
        environ: Mapping[str, str] | None = None,
        folder: Path | str = "/",
        privileged: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its exit and return its outputs.

        Programs that it leaves running don't delay the return, even if they keep its outputs.

        Args:
            text: its standard input.
            timeout: seconds; the program is killed then.
            check: raise subprocess.CalledProcessError, with the outputs, unless it exits with 0.

        Other arguments and errors as of ``popen``, and subprocess.TimeoutExpired.
        """
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
        ):
            given.write(text.encode())
            given.seek(0)
            program = self.popen(
                *command,
                stdin=given,
                stdout=output,
                stderr=errors,
                environ=environ,
                folder=folder,
                privileged=privileged,
            )
            try:
                program.wait(timeout)
            except BaseException as error:
                program.kill()
                error.add_note(f"on {self.name}: {_written(output)}{_written(errors)}")
                raise
            done = subprocess.CompletedProcess(
                program.command, program.wait(), _written(output), _written(errors)
            )
        if check and done.returncode:
            failure = subprocess.CalledProcessError(
                done.returncode, done.args, done.stdout, done.stderr
            )
            failure.add_note(f"on {self.name}: {done.stdout}{done.stderr}")
            raise failure
        return done

    def signal_all(self, number: int) -> None:
        """Send a signal to all processes but the first, at one moment."""
        self._signal(-1, number, group=False)

    def states(self) -> dict[str, str]:
        """Return the state of each process but the first (proc_pid_stat(5)), by its ID inside."""
        answer: dict[str, str] = self._ask({"do": "states"})["states"]
        return answer

    def close(self) -> None:
        """Have the kernel kill all processes at once, and return when they are gone."""
        with contextlib.suppress(OSError):  # the other end is gone
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        self._process.wait(GONE_SECONDS)

    def _signal(self, pid: int, number: int, *, group: bool) -> None:
        to = {"pid": pid, "number": int(number), "group": group}
        # Nothing is left of namespaces that have just gone.
        with contextlib.suppress(OperatorError):
            self._ask({"do": "signal", "to": to})

    def _ask(self, request: dict[str, object]) -> dict[str, Any]:
        answers = self._request(request)
        with os.fdopen(answers, "rb") as received:
            if not _readable(answers, ANSWER_SECONDS):
                raise OperatorError(f"{self.name} does not answer", exit_code=ExitCode.TIMED_OUT)
            line = received.readline()
        if not line:
            raise self._gone()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _request(self, request: dict[str, object], *streams: int) -> int:
        """Send a request; return the descriptor of its answers."""
        if self._control.fileno() == -1:
            raise self._gone()
        answers, far = os.pipe()
        try:
            # A message is sent as a whole, also by two threads at once.
            message = json.dumps(request).encode()
            socket.send_fds(self._control, [message], [far, *streams])
        except (BrokenPipeError, ConnectionResetError) as error:
            os.close(answers)
            raise self._gone() from error
        except BaseException:
            os.close(answers)
            raise
        finally:
            os.close(far)
        return answers

    def _gone(self) -> OperatorError:
        return OperatorError(f"{self.name} is off", exit_code=ExitCode.NOT_RUNNING)


def _readable(descriptor: int, seconds: float | None) -> bool:
    """Wait until there is something to read; return False if there is nothing in time."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else math.ceil(seconds * 1000)))


def _written(file: IO[bytes]) -> str:
    """Return what a program has written to a file, from its beginning."""
    file.seek(0)
    return file.read().decode(errors="replace")
