"""What this machine needs to hold a laboratory of hosts."""

from __future__ import annotations

import os
import shutil
import subprocess

from indico_zodbrepl.demo.lab.namespaces import SYSTEM_PATH, environment
from indico_zodbrepl.errors import ExitCode, OperatorError

PACKAGES = {"unshare": "util-linux", "ip": "iproute2", "nft": "nftables"}
"""The Debian package of each program."""
TRIAL = """\
ip link add br0 type bridge && ip link add one type veth peer name other &&
nft 'add table bridge faults; add chain bridge faults f { type filter hook forward priority 0; };
     add rule bridge faults f numgen random mod 100 < 1 drop' &&
exec unshare --mount --net --pid --uts --ipc --fork --mount-proc mount -t tmpfs none /tmp
"""
TRIAL_SECONDS = 30.0
# He keeps his own ID: some programs that a cluster needs refuse to run as root.
AS_ORDINARY_USER = ("--user", "--map-current-user", "--keep-caps")
SWITCH = ("--net", "--mount", "--pid")


def switch_options() -> tuple[str, ...]:
    """Return the options of unshare(1) for the namespaces that contain all others."""
    return SWITCH if os.geteuid() == 0 else (*AS_ORDINARY_USER, *SWITCH)


def missing() -> list[str]:
    """Return the programs of PACKAGES that this machine lacks."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"  # an ordinary user's may lack sbin
    return [name for name in PACKAGES if shutil.which(name, path=path) is None]


def require() -> None:
    """Return if a laboratory works here.

    Raises:
        OperatorError: exit 4, a program is missing; exit 11, the kernel does not allow or lack
            what is needed.
    """
    lacking = missing()
    if lacking:
        raise OperatorError(
            "this machine lacks programs that several hosts need",
            f"not found: {', '.join(lacking)}",
            f"as root: apt-get install {' '.join(PACKAGES[name] for name in lacking)}",
            ExitCode.NOT_INSTALLED,
        )
    done = subprocess.run(
        ["unshare", *switch_options(), "--fork", "--mount-proc", "sh", "-c", TRIAL],
        capture_output=True,
        text=True,
        check=False,
        timeout=TRIAL_SECONDS,
        env=environment(),
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise OperatorError(
            "this kernel does not allow several hosts on one machine",
            " ".join(done.stderr.split()) or f"unshare: exit code {done.returncode}",
            "run it as root, or allow user namespaces "
            "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)",
            ExitCode.UNSUITABLE,
        )
