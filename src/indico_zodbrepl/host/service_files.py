"""Install and remove the files of a cluster's systemd service, as root."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.service import UNITS, Account, Service
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import Tell

BOOTED = Path("/run/systemd/system")
"""Exists if systemd is the init system: sd_booted(3)."""

KEPT_SUFFIX = ".before"
"""Of the copy of a file that was there; systemd reads no file of such a name."""

SECONDS = 60


def account_of(user: str) -> Account:
    """Return a user of this host and their primary group.

    Raises:
        OperatorError: exit 2, there is no such user; exit 8, it is root.
    """
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise OperatorError(
            f"there is no user {user}",
            "the service needs one of its own, without a shell",
            f"adduser --system --group --home /srv/{user} {user}",
            ExitCode.BAD_CONFIG,
        ) from None
    if found.pw_uid == 0:
        raise OperatorError(
            "the service does not run as root",
            "a fault in Indico would then be one of the whole host",
            "name another user with --user",
            ExitCode.REFUSED,
        )
    return Account(user, grp.getgrgid(found.pw_gid).gr_name)


def check(service: Service, account: Account) -> None:
    """Refuse a service that could not work; change nothing.

    Raises:
        OperatorError: exit 8, supervisord's socket would be in the private /tmp, or a folder
            belongs to somebody else; exit 4, the user can't run the programs.
    """
    layout = Layout(service.cluster)
    if not layout.supervisor_socket.is_relative_to(layout.var):
        raise OperatorError(
            "the path of var-directory is too long for a service",
            f"{layout.var}: the socket of supervisord would be outside of it, in a folder that the "
            "service does not share with other programs",
            "use a shorter path, such as /var/lib/zodbrepl",
            ExitCode.REFUSED,
        )
    uid = pwd.getpwnam(account.user).pw_uid
    others = [each for each in service.folders if each.exists() and each.stat().st_uid != uid]
    if others:
        names = " ".join(map(str, others))
        raise OperatorError(
            "folders belong to another user",
            names,
            f"if nothing runs there: chown -R {account.user}:{account.group} {names}",
            ExitCode.REFUSED,
        )
    _try_programs(service, account)
    if service.cluster.hosts:
        _check_cluster_file(service, account)


def _check_cluster_file(service: Service, account: Account) -> None:
    """Refuse a cluster file that the agent could not replace for another host."""
    source = service.cluster.source
    done = _as_user(account, ["test", "-w", str(source.parent)])
    if done.returncode:
        raise OperatorError(
            f"{account.user} can't replace the cluster file",
            f"{source.parent} is not writable by that user; `hosts push` on another host replaces "
            f"{source.name} there",
            f"keep it in a folder of its own: chown {account.user}:{account.group} {source.parent}",
            ExitCode.REFUSED,
        )


def programs_outside(service: Service) -> tuple[Path, ...]:
    """Return the real paths of the two interpreters, which may be outside of the installation."""
    installation = service.installation
    return (
        installation.python27.resolve(),
        (installation.home / ".venv" / "bin" / "python").resolve(),
    )


def install(service: Service, account: Account, files: Mapping[Path, str], tell: Tell) -> None:
    """Write the files, make missing folders, and make systemd read the units.

    A file that was there with another content is kept beside it.  Nothing is started.  A timer of
    backups that this host no longer makes is stopped and removed.

    Raises OperatorError: exit 8, a file can't be written; exit 1, systemd's.
    """
    identity = pwd.getpwnam(account.user)
    try:
        for path, text in files.items():
            write(path, text, tell)
        for folder in service.folders:
            if not folder.exists():
                folder.mkdir(mode=0o700, parents=True)
                os.chown(folder, identity.pw_uid, identity.pw_gid)
                tell(f"made {folder}")
        if service.schedule is None:
            _remove_backups(service, tell)
    except OSError as error:
        raise _unusable(error) from error
    _run(["systemd-tmpfiles", "--create", str(service.tmpfiles)])
    reload_units(tell)


def remove(service: Service, tell: Tell) -> None:
    """Remove the files of a service that does not run; its data and logs stay.

    Raises OperatorError: exit 8, not root, or the service runs; exit 1, systemd's.
    """
    require_root("install-service --remove")
    if BOOTED.is_dir():
        for unit in reversed(service.units):
            if _is_active(unit):
                raise OperatorError(
                    f"{unit} runs",
                    "only a stopped service can be removed",
                    f"systemctl stop {unit}",
                    ExitCode.REFUSED,
                )
        for unit in service.units:
            if (UNITS / unit).exists():
                _run(["systemctl", "disable", "--quiet", unit])
    try:
        _remove_backups(service, tell)
        _unlink([*(UNITS / unit for unit in service.units), service.tmpfiles], tell)
    except OSError as error:
        raise _unusable(error) from error
    reload_units(tell)


def _remove_backups(service: Service, tell: Tell) -> None:
    """Stop and remove the timer of backups, and its service; a running backup goes on.

    Without the timer the service is not ours: it may be that of a cluster named NAME-backup.

    Raises OSError, and OperatorError (exit 1) of systemd.
    """
    timer = UNITS / service.backup_timer
    if not timer.exists():
        return
    if BOOTED.is_dir():
        _run(["systemctl", "disable", "--now", "--quiet", timer.name])
    _unlink([UNITS / service.backup_unit, timer], tell)


def _unlink(paths: Iterable[Path], tell: Tell) -> None:
    """Remove the files that exist.  Raises OSError."""
    for path in paths:
        if path.exists():
            path.unlink()
            tell(f"removed {path}")


def reload_units(tell: Tell) -> None:
    """Make systemd read its units again, if it runs."""
    if BOOTED.is_dir():
        _run(["systemctl", "daemon-reload"])
    else:
        tell("systemd does not run here: it reads the unit at the next boot")


def write(path: Path, text: str, tell: Tell) -> None:
    """Write a file unless it has this content; keep another content beside it.  Raises OSError."""
    if path.exists():
        if path.read_text("utf-8") == text:
            tell(f"{path} is as it should be")
            return
        kept = path.with_name(path.name + KEPT_SUFFIX)
        shutil.copy2(path, kept)
        tell(f"kept the former {path.name} as {kept}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)
    tell(f"wrote {path}")


def _try_programs(service: Service, account: Account) -> None:
    """Run both interpreters as the service's user."""
    installation = service.installation
    for command in (
        [str(installation.zodbrepl), "--version"],
        [str(installation.python27), "-c", "import indico, ZEO"],
        ["test", "-r", str(service.cluster.source)],
    ):
        try:
            done = _as_user(account, command)
            problem = done.stderr.strip() if done.returncode else ""
            failed = bool(done.returncode)
        except OSError as error:
            failed, problem = True, f"{error.filename}: {error.strerror}"
        if failed:
            raise OperatorError(
                f"{account.user} can't use the installation",
                f"{' '.join(command)}: {problem or 'permission denied'}",
                "install below a folder that this user can read, such as /opt, with a Python 2.7 "
                "of the system",
                ExitCode.NOT_INSTALLED,
            )


def _as_user(account: Account, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command as the service's user.  Raises OSError."""
    identity = pwd.getpwnam(account.user)
    return subprocess.run(
        command,
        user=identity.pw_uid,
        group=identity.pw_gid,
        extra_groups=[],
        env={"PATH": os.defpath, "HOME": "/"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def _is_active(unit: str) -> bool:
    command = ["systemctl", "is-active", "--quiet", unit]
    return subprocess.run(command, check=False, timeout=SECONDS).returncode == 0


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except FileNotFoundError:
        raise OperatorError(
            f"{command[0]} is missing", "this host has no systemd", exit_code=ExitCode.NOT_INSTALLED
        ) from None
    if done.returncode:
        raise OperatorError(f"{' '.join(command)} failed", done.stdout.strip())


def require_root(command: str) -> None:
    """Raise OperatorError (exit 8) unless this is root."""
    if os.geteuid() != 0:
        raise OperatorError(
            f"{command} needs root",
            "units are files of root",
            "see what would be written: install-service --print",
            ExitCode.REFUSED,
        )


def _unusable(error: OSError) -> OperatorError:
    return OperatorError(
        "the service can't be installed",
        f"{error.filename}: {error.strerror}",
        exit_code=ExitCode.REFUSED,
    )
