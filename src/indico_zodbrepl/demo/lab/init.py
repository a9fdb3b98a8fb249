"""Be the first process of namespaces: make their mounts, run programs, report how each exits.

It is run as a file by any Python 3, before the package can be imported, so it uses the standard
library alone.  Standard input is a socket to the lab.  When the lab's end is closed, by whatever
death of its process, this process exits, and the kernel kills everything else in the namespaces.

A request is one JSON message with the descriptor of a pipe for its answers:

    {"do": "run", ...}     and three standard streams: {"pid": PID}, at its exit {"status": CODE}
    {"do": "signal", ...}  to one program, its process group, or, with pid -1, to all
    {"do": "states"}       of all processes but this one: {"states": {PID: LETTER}}
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MESSAGE_BYTES = 1 << 20
MS_BIND = 4096  # mount(2)
MS_REC = 16384
PR_CAP_AMBIENT = 47  # prctl(2)
PR_CAP_AMBIENT_CLEAR_ALL = 4
LIBC = ctypes.CDLL(None, use_errno=True)


def prepare(settings: dict[str, Any]) -> None:
    """Set the hostname and mount what ``settings`` list, in their order."""
    if settings["hostname"]:
        socket.sethostname(settings["hostname"])
    mounts = settings["mounts"]
    # A mount may cover the source of a later one.
    sources = [os.open(each["source"], os.O_PATH) if each["source"] else -1 for each in mounts]
    for each, source in zip(mounts, sources, strict=True):
        target = Path(each["target"])
        if source == -1:
            target.mkdir(parents=True, exist_ok=True)
            mount("tmpfs", target, "tmpfs", 0, each["options"])
            continue
        seen = Path(f"/proc/self/fd/{source}")
        if seen.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        mount(str(seen), target, "", MS_BIND | MS_REC, "")
        os.close(source)


def mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    """Call mount(2); mount(8) refuses users that are not root, whatever they may do."""
    words = (source, os.fspath(target), kind)
    arguments = [os.fsencode(word) for word in words]
    if LIBC.mount(*arguments, ctypes.c_ulong(flags), options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"mount: {os.strerror(number)}", source, None, os.fspath(target))


def drop_capabilities() -> None:
    """Leave the program that is executed next what its user has, no capability of the lab."""
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


class Init:
    """Serves the requests of the lab until its end of the socket is closed.

    Args:
        control: the socket.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._running: dict[int, tuple[subprocess.Popen[bytes], int]] = {}

    def serve(self) -> None:
        """Serve requests and reap children; return when the lab is gone."""
        woken, wake = socket.socketpair()
        for each in (woken, wake):
            each.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        selector = selectors.DefaultSelector()
        selector.register(woken, selectors.EVENT_READ)
        selector.register(self._control, selectors.EVENT_READ)
        self._control.send(b"up")
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    woken.recv(4096)
                    self._reap()
                elif not self._take():
                    return

    def _take(self) -> bool:
        """Serve one request; return False if there will be no more."""
        message, descriptors, _, _ = socket.recv_fds(
            self._control, MESSAGE_BYTES, 4, socket.MSG_CMSG_CLOEXEC
        )
        if not message:
            return False
        request = json.loads(message)
        answers, *streams = descriptors
        if request["do"] == "run":
            self._run(request, answers, streams)
            return True
        if request["do"] == "signal":
            tell(answers, {"sent": self._signal(**request["to"])})
        else:
            tell(answers, {"states": states()})
        os.close(answers)
        return True

    def _run(self, request: dict[str, Any], answers: int, streams: Sequence[int]) -> None:
        try:
            process = subprocess.Popen(
                request["command"],
                env=request["environ"],
                cwd=request["folder"],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                start_new_session=True,
                preexec_fn=None if request["privileged"] else drop_capabilities,  # noqa: PLW1509 - one thread
            )
        except OSError as error:
            tell(answers, {"errno": error.errno, "filename": error.filename})
            os.close(answers)
        else:
            tell(answers, {"pid": process.pid})
            self._running[process.pid] = process, answers
        finally:
            for each in streams:
                os.close(each)

    def _signal(self, pid: int, number: int, *, group: bool) -> bool:
        """Send a signal, but to no process that has replaced a program of the same ID."""
        if pid != -1 and pid not in self._running:
            return False
        try:
            os.kill(-pid if group else pid, number)
        except ProcessLookupError:
            return False
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._running:
                process, answers = self._running.pop(pid)
                process.returncode = os.waitstatus_to_exitcode(status)
                tell(answers, {"status": process.returncode})
                os.close(answers)


def tell(answers: int, answer: dict[str, object]) -> None:
    """Write one line, unless nobody reads it any more."""
    with contextlib.suppress(BrokenPipeError):
        os.write(answers, json.dumps(answer).encode() + b"\n")


def states() -> dict[str, str]:
    """Return the letter of each process's state, of proc_pid_stat(5)."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            found[path.parent.name] = path.read_text().rpartition(")")[2].split()[0]
    found.pop(str(os.getpid()), None)
    return found


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in the background, and inherited
    prepare(json.loads(sys.argv[1]))
    Init(control).serve()
    os._exit(0)  # the kernel kills everything else now, not after the interpreter's clean-up


if __name__ == "__main__":
    main()
