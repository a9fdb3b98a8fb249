"""As whom PostgreSQL's programs run: they refuse root.

Another user runs them as it is.  For root there are two ways.  In a user namespace of its own,
a program sees itself as an ordinary user, while the files stay root's; that works in any folder.
Where namespaces are not allowed, the Debian package's own user takes the data over; it need not be
able to reach the folder by its path, as it is handed the open folder.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pwd
import shutil
import subprocess
from pathlib import Path

from ...errors import ExitCode, OperatorError
from .programs import Programs

PACKAGE_USER = "postgres"
PROBE_SECONDS = 10
# Any that is not root's; it exists in the namespace alone.
NAMESPACE_UID = 1000
FOLDER_DESCRIPTOR = 9


@dataclasses.dataclass(frozen=True)
class Identity:
    """How to start a program so that it is not root.

    Attributes:
        prefix: what comes before the program; it ends by becoming it.
        owner: the user who has to own the data; None: who runs this.
    """

    prefix: tuple[str, ...]
    owner: str | None = None

    def command(self, programs: Programs, program: str, folder: Path,
                *arguments: str) -> tuple[str, ...]:
        """A program that works on a data folder; ``{data}`` in an argument becomes its name.

        Only who starts it has to be able to reach the folder.
        """
        executable = str(programs.path(program))
        name, prefix = str(folder), self.prefix
        if self.owner is not None:
            # The open folder is handed down: its path may lead through others' folders.
            name = f"/proc/self/fd/{FOLDER_DESCRIPTOR}"
            prefix = ("/bin/sh", "-c", f'exec {FOLDER_DESCRIPTOR}<"$0"; cd /; exec "$@"',
                      str(folder), *self.prefix)
        return (*prefix, executable, *(each.replace("{data}", name) for each in arguments))

    def take_over(self, folder: Path) -> None:
        """Give a data folder to its owner; nothing when that is who runs this.  Raises OSError."""
        if self.owner is None:
            return
        user = pwd.getpwnam(self.owner)
        for parent, folders, files in os.walk(folder):
            for name in (parent, *(os.path.join(parent, each) for each in (*folders, *files))):
                os.lchown(name, user.pw_uid, user.pw_gid)


# Whoever runs this, root too.
NOBODY_ELSE = Identity(())


@functools.cache
def identity() -> Identity:
    """The way that works here.

    Raises OperatorError (exit 4) when there is none.
    """
    if os.geteuid() != 0:
        return NOBODY_ELSE
    in_namespace = namespace()
    why = _why_not(in_namespace)
    if not why:
        return in_namespace
    try:
        owner = as_package_user()
    except KeyError:
        owner = None
    if owner is not None and not _why_not(owner):
        return owner
    raise OperatorError(
        "PostgreSQL does not run as root, and there is no other user to run it as",
        f"a user namespace can't be made: {why}; and user {PACKAGE_USER} can't be used",
        f"run the cluster as another user than root, or: adduser --system {PACKAGE_USER}",
        ExitCode.NOT_INSTALLED)


def namespace() -> Identity:
    """As an ordinary user of a namespace of its own, who is root outside of it."""
    return Identity((_which("unshare"), "-U", f"--map-user={NAMESPACE_UID}"))


def as_package_user() -> Identity:
    """As Debian's user of PostgreSQL; for root only.  Raises KeyError when there is none."""
    user = pwd.getpwnam(PACKAGE_USER)
    return Identity((_which("setpriv"), f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}",
                     "--clear-groups"), PACKAGE_USER)


def _why_not(candidate: Identity) -> str:
    """What keeps a program from being started in this way; empty when nothing does."""
    try:
        done = subprocess.run([*candidate.prefix, _which("id"), "-u"], capture_output=True,
                              text=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0:
        return done.stderr.strip() or f"exit {done.returncode}"
    return "" if done.stdout.strip() != "0" else "it is still root"


def _which(program: str) -> str:
    """Its absolute path; its name when it is nowhere, so that starting it tells."""
    return shutil.which(program) or program
