"""Run a command on another host by the system's ssh, which may ask nothing and may not hang."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

from indico_zodbrepl.errors import ExitCode, OperatorError

CONNECT_SECONDS = 10
SILENT_SECONDS = 15
FAILED = 255
"""The exit code of ssh itself; any other is that of the command."""
OPTIONS = (
    ("BatchMode", "yes"),
    ("ConnectTimeout", str(CONNECT_SECONDS)),
    ("ServerAliveInterval", "5"),
    ("ServerAliveCountMax", str(SILENT_SECONDS // 5)),
)


def run(address: str, command: Sequence[str], content: bytes, seconds: float) -> str:
    """Run a command with this standard input; return what it printed.

    Args:
        seconds: for all of it.

    Raises:
        OperatorError: exit 4, there is no ssh; exit 7, no answer in time; exit 1, ssh or the
            command failed, with what it said.
    """
    options = [word for name, value in OPTIONS for word in ("-o", f"{name}={value}")]
    try:
        done = subprocess.run(
            ["ssh", "-T", *options, address, shlex.join(command)],
            input=content,
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except FileNotFoundError as error:
        raise OperatorError(
            "ssh is not installed",
            "no program ssh in PATH",
            "as root: apt-get install openssh-client; or use a bundle: --to-file FILE",
            ExitCode.NOT_INSTALLED,
        ) from error
    except subprocess.TimeoutExpired as error:
        raise OperatorError(
            f"{address} did not answer in time",
            f"ssh was stopped after {seconds:g} s",
            "use a bundle: --to-file FILE",
            ExitCode.TIMED_OUT,
        ) from error
    said = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode == FAILED:
        raise OperatorError(
            f"ssh can't reach {address}",
            said,
            "let this user log in there by a key, and accept the host's key once: "
            f"ssh {address}; or use a bundle: --to-file FILE",
        )
    if done.returncode:
        raise OperatorError(f"the command on {address} failed: exit code {done.returncode}", said)
    return done.stdout.decode("utf-8", "replace")
