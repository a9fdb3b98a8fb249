"""A systemd of its own: a container that sees this machine's files, and changes none of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from clusters import wait_until

BOOT_SECONDS = 120.0
COMMAND_SECONDS = 400


def lacking() -> str:
    """What this machine lacks to hold such a machine, or nothing."""
    if os.geteuid() != 0:
        return "root"
    missing = [name for name in ("systemd-nspawn", "nsenter") if shutil.which(name) is None]
    return f"{' and '.join(missing)}: apt-get install systemd-container" if missing else ""


class Machine:
    """A booted systemd; what it changes in files is gone with it.

    Args:
        init: process ID of its systemd, as seen from here.
    """

    def __init__(self, init: int) -> None:
        self._init = init

    def run(
        self, command: Sequence[str | Path], *, user: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside; output as text, both streams in one."""
        enter = ["nsenter", "--target", str(self._init), "--mount", "--pid", "--uts", "--ipc"]
        enter += ["--net", "--cgroup", "--root", "--wd"]
        become = ["runuser", "--user", user, "--"] if user else []
        done = subprocess.run(
            [*enter, *become, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
        return done

    def write(self, path: str | Path, text: str, mode: str = "644") -> None:
        """Make a file inside, with its folder."""
        self.run(["mkdir", "-p", Path(path).parent])
        self.run(["sh", "-c", 'printf "%s" "$1" > "$0"', path, text])
        self.run(["chmod", mode, path])


@contextlib.contextmanager
def booted(folder: Path) -> Iterator[Machine]:
    """A machine that has booted, without the services of this one; it is ended afterwards.

    Args:
        folder: an empty one, for its root.
    """
    subprocess.run(["mount", "--bind", "/", folder], check=True)
    try:
        command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot"]
        command += ["--volatile=overlay", "--private-network", "--console=pipe", "-D", str(folder)]
        command.append("systemd.unit=basic.target")
        with (
            (folder.parent / "console").open("wb") as console,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=console
            ) as p,
        ):
            try:
                wait_until(lambda: bool(_children(p.pid)), "the container has begun", BOOT_SECONDS)
                (init,) = _children(p.pid)
                machine = Machine(init)
                wait_until(lambda: _is_up(machine), "systemd has booted", BOOT_SECONDS)
                yield machine
            finally:
                for pid in _children(p.pid) or [p.pid]:  # the end of its first process ends all
                    os.kill(pid, signal.SIGKILL)
                p.wait(BOOT_SECONDS)
    finally:
        subprocess.run(["umount", folder], check=True)


def _children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in children.read_text().split()] if children.exists() else []


def _is_up(machine: Machine) -> bool:
    state = machine.run(["systemctl", "is-system-running"], check=False).stdout.strip()
    return state in {"running", "degraded"}
