"""The tunnel of a host as a program: its start, and the use of changed certificates."""

from __future__ import annotations

import datetime
import hashlib
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

from indico_zodbrepl.cluster.files import differs, write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.rendering import Program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import certificates, programs, tunnel
from indico_zodbrepl.host.interface import Tell
from indico_zodbrepl.host.supervisor import Supervisor

COMMAND = "haproxy"
PACKAGE = "haproxy"
FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin")
"""Not all of them are in the PATH of ordinary users."""
CHECK_SECONDS = 30.0
STOP_SECONDS = 5


def program(cluster: Cluster) -> Program:
    """Return the program of this host's tunnel; its master process replaces workers on SIGUSR2."""
    layout = Layout(cluster)
    return Program(
        name=tunnel.name(cluster),
        command=(str(find() or COMMAND), "-W", "-db", "-f", str(layout.tunnel_conf)),
        directory=layout.var,
        stop_seconds=STOP_SECONDS,
        final_exits=(),
    )


def check(cluster: Cluster) -> None:
    """Check that the tunnel of this host can start.

    Raises OperatorError: exit 4, HAProxy is missing; exit 8, the host's certificate can't be used.
    """
    if not tunnel.runs_here(cluster):
        return
    check_installed()
    certificates.check_host(
        Layout(cluster).tls, tunnel.own_host(cluster), datetime.datetime.now(datetime.UTC)
    )


def check_installed() -> None:
    """Raise OperatorError (exit 4) if HAProxy is missing."""
    if find() is None:
        raise OperatorError(
            "HAProxy, which encrypts the connections between hosts, is not installed",
            f"no {COMMAND} in PATH and {', '.join(FOLDERS)}",
            f"as root: apt-get install {PACKAGE}",
            ExitCode.NOT_INSTALLED,
        )


def find() -> Path | None:
    """Return the path of HAProxy; None if it is not installed."""
    return programs.find(COMMAND, FOLDERS)


def start(
    cluster: Cluster,
    stage: programs.Stage,
    missing: Collection[str],
    deadline: float,
    progress: Tell,
) -> programs.Started:
    """Start the tunnel, or make a running one use its present files, and wait until it listens.

    Args:
        stage: its stage; empty without a tunnel.
        missing: programs that do not run.

    Raises OperatorError as ``programs.start`` and ``reload``.
    """
    if not stage:
        return programs.Started([], {})
    if tunnel.name(cluster) not in missing and is_outdated(cluster):
        reload(cluster)
        progress(f"{tunnel.name(cluster)} has read its files again")
    files = _digest(cluster)
    done = programs.start(cluster, stage, missing, deadline, progress)
    if done.programs:
        _record(cluster, files)
    return done


def rereading(
    cluster: Cluster, files: Mapping[Path, str], running: Collection[str]
) -> tuple[str, ...]:
    """Return what ``start`` would do to a running tunnel once ``up`` has written these files."""
    path = Layout(cluster).tunnel_conf
    if path not in files or tunnel.name(cluster) not in running:
        return ()
    if not differs(path, files[path]) and not is_outdated(cluster):
        return ()
    return (f"make {tunnel.name(cluster)} read its files again",)


def is_outdated(cluster: Cluster) -> bool:
    """Return True if the tunnel runs with an older configuration or older certificates.

    It may say so of a tunnel that has restarted since.  Raises OperatorError (exit 8).
    """
    path = Layout(cluster).tunnel_digest
    try:
        return path.read_text() != _digest(cluster)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise certificates.unusable(path, error) from error


def reload(cluster: Cluster) -> None:
    """Make the running tunnel use its present configuration and certificates.

    Established connections go on as they are, and no new one is refused meanwhile.

    Raises:
        OperatorError: exit 1, HAProxy refuses the configuration, and the old one stays; exit 6,
            supervisord does not run; exit 8, a file can't be used.
    """
    path, files = Layout(cluster).tunnel_conf, _digest(cluster)
    checked = subprocess.run(
        [str(find() or COMMAND), "-c", "-f", str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=CHECK_SECONDS,
    )
    if checked.returncode != 0:
        raise OperatorError(
            "the tunnel keeps its old configuration: HAProxy refuses the new one",
            checked.stdout.strip(),
            f"see {path}",
        )
    if Supervisor(cluster).signal(tunnel.name(cluster), "USR2"):
        _record(cluster, files)


def _record(cluster: Cluster, files: str) -> None:
    path = Layout(cluster).tunnel_digest
    try:
        write_atomically(path, files, 0o600)
    except OSError as error:
        raise certificates.unusable(path, error) from error


def _digest(cluster: Cluster) -> str:
    """Return a digest of the files that the tunnel reads when it starts."""
    layout, digest = Layout(cluster), hashlib.sha256()
    for path in (
        layout.tunnel_conf,
        certificates.authorities_file(layout.tls),
        certificates.own_file(layout.tls),
    ):
        try:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError as error:
            raise certificates.unusable(path, error) from error
    return digest.hexdigest()
