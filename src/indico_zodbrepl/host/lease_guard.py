"""The parent process of a database server, which kills it when the lease of a primary ends.

PostgreSQL and MariaDB have no gate that could refuse commits at a given time.  So the program that
holds the leader's role on this host gives this process leases, over ``control.sock`` in the node's
data directory.  Each lease is an absolute time of CLOCK_BOOTTIME, which no change of the system's
clock moves, and which goes on while the machine sleeps.  A primary's server starts with the first
lease.  When the last one ends, all processes of the server get SIGKILL, and this process ends when
the kernel has confirmed that none is left.  A primary's server that somebody stops with SIGSTOP is
killed in the same way, because it could continue at any time.  A follower's server needs no lease.

The process asks nobody: it needs neither the network, nor the disk, nor the program that gives the
leases.  Its memory is locked and it runs with real-time priority where that is permitted.  It uses
the Linux watchdog device if the device's owner or group permits that to the user who runs the
cluster; the kernel then restarts the machine if this process itself does not run.

It imports only the standard library.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SOCKET = "control.sock"
EXPIRED = 75
"""Exit code after the end of a lease: the program is started again, and checked as at any start."""
LEAST_SECONDS = 1.5
MOST_AHEAD = 60.0
"""Longest lease in seconds."""
LONGEST_ORDER = 4096
POLL_SECONDS = 0.01
COMPANION_SECONDS = 1.0
"""Pause before the companion is started again."""
LOOK_SECONDS = 0.2
"""Between two looks if the server is stopped; two in a row count."""

WATCHDOG = Path("/dev/watchdog")
_PET, _DISARM = b"1", b"V"
_WATCHDOG_TIMEOUT = 0xC0045706

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MCL_CURRENT_AND_FUTURE = 3
_TIMER_ABSOLUTE = 1
_libc = ctypes.CDLL(None, use_errno=True)


def now() -> float:
    """Return the time of CLOCK_BOOTTIME."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """The right of a server to run.

    Args:
        required: False for a follower's server, which runs without one.
        epoch: of the node's state.
    """

    def __init__(self, *, required: bool, epoch: int) -> None:
        self.required = required
        self.epoch = epoch
        self.until = 0.0

    def extend(self, epoch: int, until: float, at: float) -> str:
        """Take another end, or return why not; from then on the server needs a lease."""
        if epoch < self.epoch:
            return f"epoch {epoch} is over: this node is in epoch {self.epoch}"
        if until > at + MOST_AHEAD:
            return f"the lease would end in {until - at:.0f} s, which is more than {MOST_AHEAD:g} s"
        self.required, self.epoch, self.until = True, epoch, until
        return ""

    def holds(self, at: float) -> bool:
        """Return True if the server may run."""
        return not self.required or at < self.until


class Alarm:
    """A timer of the kernel that fires at a time of CLOCK_BOOTTIME, also after a suspend."""

    def __init__(self) -> None:
        self.descriptor: int = _libc.timerfd_create(time.CLOCK_BOOTTIME, os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def set(self, until: float) -> None:
        """Fire at this time; at once if it is over."""
        whole = int(until)
        fields = struct.pack("llll", 0, 0, whole, max(1, int((until - whole) * 1e9)))
        if _libc.timerfd_settime(self.descriptor, _TIMER_ABSOLUTE, fields, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")


class Watchdog:
    """The Linux watchdog device; does nothing where no permission asks for its use.

    The permission is the device's owner, if that is the user of this process and not root, or a
    group of it that may write.
    """

    def __init__(self, path: Path = WATCHDOG) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._timeout = 0

    def arm(self, seconds: float) -> None:
        """Let the kernel restart the machine unless ``pet`` is called within these seconds."""
        if self._descriptor is None and self._is_ours():
            with contextlib.suppress(OSError):
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        wanted = max(1, int(seconds))
        if self._descriptor is not None and wanted != self._timeout:
            value = ctypes.c_int(wanted)
            _libc.ioctl(self._descriptor, ctypes.c_ulong(_WATCHDOG_TIMEOUT), ctypes.byref(value))
            self._timeout = wanted
        self._write(_PET)

    def disarm(self) -> None:
        """Stop the device: no process of the server is left."""
        self._write(_DISARM)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def armed(self) -> bool:
        return self._descriptor is not None

    def _is_ours(self) -> bool:
        try:
            found = self._path.stat()
        except OSError:
            return False
        owner = found.st_uid == os.geteuid() != 0 and bool(found.st_mode & stat.S_IWUSR)
        group = found.st_gid in {os.getegid(), *os.getgroups()}
        return owner or (group and found.st_gid != 0 and bool(found.st_mode & stat.S_IWGRP))

    def _write(self, what: bytes) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, what)


def state_of(pid: int) -> str:
    """Return the letter of the state of a child."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def descendants(root: int) -> set[int]:
    """Return the processes below a process, zombies included."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(name))
    found: set[int] = set()
    left = [root]
    while left:
        below = parents.get(left.pop(), [])
        left += below
        found |= set(below)
    return found


def kill_all() -> None:
    """Send SIGKILL to all processes below this one until the kernel reports that none is left.

    An orphan becomes a child of this process, so none can leave.  A process that waits for a hung
    disk is waited for: until it has gone, nothing may be reported.
    """
    while True:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(POLL_SECONDS)


def start(command: Sequence[str]) -> int:
    """Start a child that is killed if this process dies; return its PID."""
    pid = os.fork()
    if pid:
        return pid
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.execvp(command[0], list(command))  # noqa: S606  # no shell is wanted
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(126)


def be_preferred() -> None:
    """Lock the memory of this process, and run before others, as far as that is permitted."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _libc.mlockall(_MCL_CURRENT_AND_FUTURE)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


class Guard:
    """The parent of a server.

    Args:
        lease: the server's.
        command: of the server.
        companion: a command that runs as long as the server does; empty for none.
        watchdog: the device.
    """

    def __init__(
        self, lease: Lease, command: Sequence[str], companion: Sequence[str], watchdog: Watchdog
    ) -> None:
        self._lease = lease
        self._command = command
        self._companion_command = companion
        self._watchdog = watchdog
        self._alarm = Alarm()
        self._server: int | None = None
        self._companion: int | None = None
        self._companion_due = 0.0
        self._stopping = False
        self._was_frozen = False
        self._look_due = 0.0
        self._began = now()
        self._selector = selectors.DefaultSelector()

    def run(self, listener: socket.socket) -> int:
        """Serve until the server has exited or was killed; return the exit code."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        for source in (listener, reader, self._alarm.descriptor):
            self._selector.register(source, selectors.EVENT_READ)
        if not self._lease.required:
            self._start()
        else:
            print("the server starts when it has a lease", flush=True)
        while True:
            events = self._selector.select(LOOK_SECONDS)
            if self._server is not None and not self._lease.holds(now()):
                late = now() - self._lease.until
                return self._kill(f"the lease has ended: the server was killed {late:.3f} s later")
            if self._is_frozen():
                return self._kill("the server was stopped by a signal, and killed")
            for key, _ in events:
                if key.fileobj is listener:
                    self._accept(listener)
                elif key.fileobj == reader:
                    ended = self._signals(os.read(reader, 4096))
                    if ended is not None:
                        return ended
                elif isinstance(key.fileobj, socket.socket):
                    self._converse(key.fileobj)
            self._keep_companion()

    def _start(self) -> None:
        self._server = start(self._command)

    def _keep_companion(self) -> None:
        if (
            self._companion_command
            and self._server is not None
            and self._companion is None
            and now() >= self._companion_due
        ):
            self._companion = start(self._companion_command)
            self._companion_due = now() + COMPANION_SECONDS

    def _is_frozen(self) -> bool:
        """Return True if a leased server is stopped, and was at the last look."""
        if self._server is None or not self._lease.required or now() < self._look_due:
            return False
        self._look_due = now() + LOOK_SECONDS
        before, self._was_frozen = self._was_frozen, state_of(self._server) in "Tt"
        return before and self._was_frozen

    def _kill(self, why: str) -> int:
        kill_all()
        self._watchdog.disarm()
        print(why, flush=True)
        # Supervisor restarts only what has run for a while.
        time.sleep(max(0.0, self._began + LEAST_SECONDS - now()))
        return EXPIRED

    def _signals(self, numbers: bytes) -> int | None:
        """Forward signals and reap children; return the exit code once the server has exited."""
        for number in set(numbers) - {signal.SIGCHLD}:
            self._stopping = True
            if self._server is None:
                return 0
            os.kill(self._server, number)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return None
            if not pid:
                return None
            if pid == self._companion:
                self._companion = None
            if pid == self._server:
                kill_all()
                self._watchdog.disarm()
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            peer, _ = listener.accept()
            peer.setblocking(False)
            self._selector.register(peer, selectors.EVENT_READ)

    def _converse(self, peer: socket.socket) -> None:
        """Answer one order: a line; a client reads the answer before it sends the next one."""
        try:
            line = peer.recv(LONGEST_ORDER)
            if line:
                peer.sendall(json.dumps(self._obey(line)).encode() + b"\n")
                return
        except OSError:
            pass
        self._selector.unregister(peer)
        peer.close()

    def _obey(self, line: bytes) -> Mapping[str, object]:
        try:
            order: Any = json.loads(line)
            do = order["do"]
            if do == "lease":
                refused = self._extend(int(order["epoch"]), float(order["until"]))
            elif do == "status":
                refused = ""
            else:
                refused = "this process knows no such order"
        except (ValueError, KeyError, TypeError) as error:
            do, refused = "order", f"unusable: {error!r}"
        if refused:
            return {"ok": False, "error": f"{do} refused", "detail": refused}
        return {"ok": True, **self._status()}

    def _extend(self, epoch: int, until: float) -> str:
        at = now()
        refused = self._lease.extend(epoch, until, at)
        if refused:
            return refused
        self._alarm.set(until)
        if self._lease.holds(at):
            self._watchdog.arm(until - at)
            if self._server is None and not self._stopping:
                self._start()
        return ""

    def _status(self) -> Mapping[str, object]:
        lease = self._lease
        return {
            "role": "primary" if lease.required else "secondary",
            "epoch": lease.epoch,
            "known_epoch": lease.epoch,
            "last_tid": "0",
            "held": None if lease.holds(now()) else "lease",
            "held_for": None,
            "upstream": None,
            "connected": None,
            "followers": [],
            "lease": {"left": lease.until - now()} if lease.required else None,
            "pid": self._server,
            "watchdog": self._watchdog.armed,
        }


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Listen on a socket that only its owner may use; it replaces that of a killed process."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    before = os.umask(0o177)
    try:
        listener = socket.socket(socket.AF_UNIX)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:  # the path may be too long for a socket
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    finally:
        os.umask(before)
    with listener:
        listener.setblocking(False)
        listener.listen()
        try:
            yield listener
        finally:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="lease_guard")
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--leased", action="store_true", help="the server needs a lease")
    parser.add_argument("--companion", type=json.loads, default=[], help="its command, as JSON")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    be_preferred()
    lease = Lease(required=given.leased, epoch=given.epoch)
    with listening(Path.cwd() / SOCKET) as listener:
        return Guard(lease, given.command, given.companion, Watchdog()).run(listener)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
