"""PostgreSQL's programs: their location, and how to run them, as they refuse root.

Users other than root run them directly.  For root there are two ways.  In a user namespace of its
own, a program sees itself as an ordinary user, while the files stay root's; that works in any
folder.  If namespaces are not permitted, the data are given to the Debian package's own user. That
user need not be able to reach the folder by its path, because it inherits the open folder.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from indico_zodbrepl.backends.native_replication import ENDS_WITH_US
from indico_zodbrepl.backends.postgresql import config
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.settings import PostgreSQLSettings
from indico_zodbrepl.errors import ExitCode, OperatorError

PACKAGE_USER = "postgres"
PROBE_SECONDS = 10
# Any id other than root's; it exists only in the namespace.
NAMESPACE_UID = 1000
FOLDER_DESCRIPTOR = 9


# Seconds for initdb, a rewind, or the recovery of a killed server's data.
TOOL_SECONDS = 600.0
POLL_SECONDS = 0.1
# Standard output, as lines; a program says no more than that.
OUTPUT_LINES = 20

NEEDED = ("postgres", "initdb", "pg_basebackup", "pg_rewind", "pg_controldata")

# Debian's location, one folder per version.
DEBIAN_FOLDERS = Path("/usr/lib/postgresql")


@dataclasses.dataclass(frozen=True)
class Identity:
    """A way to run a program as a user other than root.

    Attributes:
        prefix: command that precedes the program and replaces itself by it.
        owner: the user who must own the data; None for the user of this process.
    """

    prefix: tuple[str, ...]
    owner: str | None = None

    def command(
        self, programs: Programs, program: str, folder: Path, *arguments: str
    ) -> tuple[str, ...]:
        """Return a command for a data folder; ``{data}`` in an argument becomes its path.

        Only the process that starts it must be able to reach the folder.
        """
        executable = str(programs.path(program))
        name, prefix = str(folder), self.prefix
        if self.owner is not None:
            # The open folder is inherited: its path may lead through folders of other users.
            name = f"/proc/self/fd/{FOLDER_DESCRIPTOR}"
            prefix = (
                "/bin/sh",
                "-c",
                f'exec {FOLDER_DESCRIPTOR}<"$0"; cd /; exec "$@"',
                str(folder),
                *self.prefix,
            )
        return (*prefix, executable, *(each.replace("{data}", name) for each in arguments))

    def tied(self) -> Identity:
        """Return this way for programs that are killed when the thread that starts them ends."""
        return dataclasses.replace(self, prefix=(*self.prefix, *ENDS_WITH_US))

    def take_over(self, folder: Path) -> None:
        """Give a data folder to its owner, if that is another user.  Raises OSError."""
        if self.owner is None:
            return
        user = pwd.getpwnam(self.owner)
        for parent, folders, files in os.walk(folder):
            for name in (parent, *(os.path.join(parent, each) for each in (*folders, *files))):
                os.lchown(name, user.pw_uid, user.pw_gid)


# The user of this process, including root.
NOBODY_ELSE = Identity(())


@functools.cache
def identity() -> Identity:
    """Return how this host can run the servers as a user other than root.

    Raises OperatorError (exit 4) if there is none.
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
        ExitCode.NOT_INSTALLED,
    )


def namespace() -> Identity:
    """Return the way through a user namespace: an ordinary user inside, root outside."""
    return Identity((_which("unshare"), "-U", f"--map-user={NAMESPACE_UID}"))


def as_package_user() -> Identity:
    """Return the way as Debian's PostgreSQL user, for root; KeyError without that user."""
    user = pwd.getpwnam(PACKAGE_USER)
    return Identity(
        (_which("setpriv"), f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"),
        PACKAGE_USER,
    )


def _why_not(candidate: Identity) -> str:
    """Return why no program can be started in this way; empty if it works."""
    try:
        done = subprocess.run(
            [*candidate.prefix, _which("id"), "-u"],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0:
        return done.stderr.strip() or f"exit {done.returncode}"
    return "" if done.stdout.strip() != "0" else "it is still root"


def _which(program: str) -> str:
    return shutil.which(program) or program


def of_data(cluster: Cluster, folder: Path) -> Programs:
    """Return the programs for existing data, or of any version for new data; raise as ``find``."""
    version = folder / "PG_VERSION"
    return find(
        config.settings_of(cluster),
        version.read_text("ascii").strip() if version.exists() else None,
    )


def environment() -> dict[str, str]:
    """Return this process's environment without variables for PostgreSQL's programs."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PG") and name not in ("LANG", "LANGUAGE")
    } | {"LC_ALL": "C"}


def run(
    identity: Identity,
    tools: Programs,
    program: str,
    folder: Path,
    *arguments: str,
    text: str = "",
    seconds: float = TOOL_SECONDS,
    stalled: Callable[[int], bool] = lambda _pid: False,
) -> str:
    """Run a program until it exits, or this process does; return its standard output.

    Args:
        folder: the data folder; ``{data}`` in an argument is its name.
        text: for its standard input.
        stalled: called now and then with the PID; if it returns True the program is killed.

    Raises:
        OperatorError: exit 1, it failed, with its message; exit 7, it took too long or stalled.
    """
    command = identity.tied().command(tools, program, folder, *arguments)
    deadline = time.monotonic() + seconds
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=environment(),
        cwd=folder,
    ) as child:
        try:
            output, given = "", text
            while True:
                try:
                    output, _ = child.communicate(given, timeout=POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    given = ""
                    if time.monotonic() > deadline or stalled(child.pid):
                        raise OperatorError(
                            f"{program} did not come to its end",
                            f"data folder {folder}",
                            exit_code=ExitCode.TIMED_OUT,
                        ) from None
        finally:
            child.kill()
    if child.returncode != 0:
        raise OperatorError(
            f"{program} failed with exit {child.returncode}",
            "\n".join(output.splitlines()[-OUTPUT_LINES:]) or f"on {folder}",
        )
    return output


def control_data(cluster: Cluster, node: Node) -> dict[str, str]:
    """Return pg_controldata's values of a node by label.  Raises as ``run``, and OSError."""
    folder = config.data_folder(node)
    output = run(identity(), of_data(cluster, folder), "pg_controldata", folder, "{data}")
    return {
        label.strip(): value.strip()
        for label, _, value in (line.partition(":") for line in output.splitlines())
    }


def single_user(
    identity: Identity, tools: Programs, folder: Path, database: str, *statements: str
) -> str:
    """Run SQL in a data folder that no server has open, after crash recovery if needed.

    Statements are one line each, and are not logged.  Returns the output; raises as ``run``.
    """
    return run(
        identity,
        tools,
        "postgres",
        folder,
        "--single",
        "-D",
        "{data}",
        "-c",
        "exit_on_error=on",
        "-c",
        "log_min_error_statement=panic",
        "-c",
        "log_checkpoints=off",
        database,
        text="".join(statement + "\n" for statement in statements),
    )


@dataclasses.dataclass(frozen=True)
class Programs:
    """The programs of one version; ``folder`` is absolute."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / name


def find(settings: PostgreSQLSettings, version: str | None = None) -> Programs:
    """Return the programs in ``bin-directory``, on PATH, or in Debian's folders.

    Args:
        version: the major version of existing data, which need programs of that version.

    Raises:
        OperatorError: exit 4, they are missing.
    """
    folders = list(_folders(settings))
    complete = [
        folder for folder in folders if all(os.access(folder / name, os.X_OK) for name in NEEDED)
    ]
    for folder in complete:
        if version is None or _version(folder) in (version, None):
            return Programs(folder)
    looked = ", ".join(map(str, folders)) or f"PATH and {DEBIAN_FOLDERS}/*/bin"
    if complete:
        raise OperatorError(
            f"PostgreSQL {version}, which made the data, is not installed",
            f"looked in {looked}",
            f"apt-get install postgresql-{version}",
            ExitCode.NOT_INSTALLED,
        )
    raise OperatorError(
        "PostgreSQL's programs are not installed",
        f"no {', '.join(NEEDED)} in {looked}",
        "apt-get install postgresql; or name their folder: bin-directory in <postgresql>",
        ExitCode.NOT_INSTALLED,
    )


def _folders(settings: PostgreSQLSettings) -> Iterator[Path]:
    if settings.bin_directory is not None:
        yield settings.bin_directory
        return
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from sorted(DEBIAN_FOLDERS.glob("*/bin"), key=_number, reverse=True)


def _version(folder: Path) -> str | None:
    return folder.parent.name if re.fullmatch(r"\d+", folder.parent.name) else None


def _number(folder: Path) -> int:
    return int(_version(folder) or 0)
