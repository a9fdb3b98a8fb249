"""Read what decides whether this host suits a cluster: clock, disks, limits, ports, user, kernel.

Nothing is changed; a small file without a name is written, flushed and dropped in each folder, or
in the one above that exists.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import pwd
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.cluster import Cluster, Endpoint
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.etcd import member
from indico_zodbrepl.host import ports, tunnel
from indico_zodbrepl.host.disks import Disk, disk_of

FSYNCS = 30
FSYNC_BYTES = 4096

MOUNTS = Path("/proc/self/mountinfo")
MEMORY = Path("/proc/meminfo")
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
RESERVED = Path("/proc/sys/net/ipv4/ip_local_reserved_ports")

UNSYNCHRONISED = 0x0040
"""STA_UNSYNC of adjtimex(2)."""


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder of the cluster.

    Attributes:
        purpose: as in ``data of node a``.
        private: True if only its owner may look into it.
        there: True if it exists.
        makeable: True if it is missing and this user can make it.
        owner: name of the user who owns it; empty if it is missing.
        mode: permission bits.
        problem: why a file can't be written there; empty if one can.
        disk: its file system, or that of the nearest folder above it that exists; so are ``kind``
            and ``fsync_ms``.
        kind: type of that file system, as ``ext4``; empty if unknown.
        fsync_ms: median of small writes that were flushed to disk, milliseconds; None if not
            measured.
    """

    path: Path
    purpose: str
    private: bool = True
    there: bool = True
    makeable: bool = False
    owner: str = ""
    mode: int = 0o700
    problem: str = ""
    disk: Disk | None = None
    kind: str = ""
    fsync_ms: float | None = None


@dataclasses.dataclass(frozen=True)
class Secret:
    """A file that may hold passwords; ``problem`` says why it can't be read."""

    path: Path
    purpose: str
    mode: int
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Port:
    """An address of the cluster.

    Attributes:
        problem: empty if it is free or the cluster has it.
        ours: True if a program of the cluster has it.
    """

    endpoint: Endpoint
    problem: str = ""
    ours: bool = False


@dataclasses.dataclass(frozen=True)
class System:
    """The readings of a host.

    Attributes:
        user: name of the user of this process.
        synchronised: False if nothing synchronises the clock; None if the kernel does not tell.
        cores: processors that this process may use.
        memory: bytes.
        open_files, processes: hard limits; None for no limit.
        ephemeral: first and last port that the kernel gives to outgoing connections.
        reserved: ports that it leaves out of these.
    """

    user: str
    synchronised: bool | None
    cores: int
    memory: int
    open_files: int | None
    processes: int | None
    ephemeral: tuple[int, int]
    reserved: frozenset[int]
    folders: tuple[Folder, ...]
    secrets: tuple[Secret, ...]
    ports: tuple[Port, ...]


def read(cluster: Cluster) -> System:
    """Read this host as the present user; takes about a second for slow disks."""
    return System(
        user=_user(os.geteuid()),
        synchronised=_is_synchronised(),
        cores=len(os.sched_getaffinity(0)),
        memory=_memory(),
        open_files=_hard_limit(resource.RLIMIT_NOFILE),
        processes=_hard_limit(resource.RLIMIT_NPROC),
        ephemeral=_range(_text(EPHEMERAL)),
        reserved=frozenset(_ports(_text(RESERVED))),
        folders=tuple(_folder(*each) for each in _folders(cluster)),
        secrets=tuple(_secret(*each) for each in _secrets(cluster)),
        ports=tuple(_port(cluster, each) for each in _own_endpoints(cluster)),
    )


def _folders(cluster: Cluster) -> Iterator[tuple[Path, str, bool]]:
    layout = Layout(cluster)
    # Its folders with secrets, logs and data are private themselves.
    yield layout.var, "var-directory", False
    for node in cluster.local.nodes:
        if node.managed:
            yield node.data_directory, f"data of node {node.name}", True
    if member.runs_here(cluster):
        yield member.data_directory(cluster), "data of etcd", True
    yield layout.archive, "uploaded files", True
    if cluster.own_backup_directory is not None:
        yield cluster.own_backup_directory, "backups", True


def _secrets(cluster: Cluster) -> Iterator[tuple[Path, str]]:
    if cluster.site_conf is not None:
        yield cluster.site_conf, "site-conf"
    if cluster.mail is not None and cluster.mail.password_file is not None:
        yield cluster.mail.password_file, "password-file of mail"
    watch, layout = cluster.watch, Layout(cluster)
    if watch is not None and watch.webhook_secret_file is not None:
        yield watch.webhook_secret_file, "webhook secret of watch"
    if watch is not None and watch.mail_password_file is not None:
        yield watch.mail_password_file, "mail password of watch"
    made = [layout.accounts, layout.session_key]
    # If they are another user's, the finding about the var-directory says so.
    with contextlib.suppress(FileNotFoundError, PermissionError):
        made += sorted(each for each in layout.secrets.iterdir() if each.suffix != ".lock")
    for each in made:
        with contextlib.suppress(PermissionError):
            if each.is_file():
                yield each, "secret"


def _folder(path: Path, purpose: str, private: bool) -> Folder:
    try:
        found = path.stat()
    except FileNotFoundError:
        above = next(each for each in path.parents if each.exists())
        makeable = os.access(above, os.W_OK | os.X_OK)
        return Folder(
            path,
            purpose,
            private,
            there=False,
            makeable=makeable,
            disk=disk_of(above),
            kind=_kind(above),
            fsync_ms=_fsync(above)[0] if makeable else None,
        )
    except OSError as error:
        return Folder(path, purpose, private, problem=error.strerror or str(error))
    fsync_ms, problem = _fsync(path)
    return Folder(
        path,
        purpose,
        private,
        owner=_user(found.st_uid),
        mode=found.st_mode & 0o777,
        problem=problem,
        disk=disk_of(path),
        kind=_kind(path),
        fsync_ms=fsync_ms,
    )


def _fsync(folder: Path) -> tuple[float | None, str]:
    """Return the median of some small flushed writes in milliseconds, or why there is none."""
    took = []
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            for _ in range(FSYNCS):
                began = time.perf_counter()
                probe.write(os.urandom(FSYNC_BYTES))
                probe.flush()
                os.fsync(probe.fileno())
                took.append(time.perf_counter() - began)
    except OSError as error:
        return None, error.strerror or str(error)
    return statistics.median(took) * 1000, ""


def _kind(path: Path) -> str:
    """Return the type of a folder's file system from the kernel's table, proc(5)."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in MOUNTS.read_text("utf-8", "replace").splitlines():
        mount, _, source = line.partition(" - ")
        if mount.split()[2] == number:
            return source.split()[0]
    return ""


def _secret(path: Path, purpose: str) -> Secret:
    try:
        with path.open("rb"):
            return Secret(path, purpose, path.stat().st_mode & 0o777)
    except OSError as error:
        return Secret(path, purpose, 0, error.strerror or str(error))


def _own_endpoints(cluster: Cluster) -> Iterator[Endpoint]:
    """Yield the addresses on which the cluster's own programs listen."""
    foreign = {node.name for node in cluster.nodes if not node.managed}
    for endpoint in cluster.own_endpoints():
        if endpoint.kind != "node" or endpoint.name not in foreign:
            yield endpoint
    yield from tunnel.endpoints(cluster)
    for endpoint in cluster.endpoints():
        if endpoint.kind == "host" and endpoint.name == cluster.here:
            yield endpoint


def _port(cluster: Cluster, endpoint: Endpoint) -> Port:
    try:
        if ports.is_free(endpoint.address):
            return Port(endpoint)
    except OSError as error:
        return Port(endpoint, error.strerror or str(error))
    owner = ports.owner_of(endpoint.address)
    if owner is None:
        return Port(endpoint, "taken by a process of another user")
    if ports.is_of_cluster(owner, cluster):
        return Port(endpoint, ours=True)
    return Port(endpoint, f"taken by process {owner.pid}: {owner.command}")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _hard_limit(which: int) -> int | None:
    limit = resource.getrlimit(which)[1]
    return None if limit == resource.RLIM_INFINITY else limit


def _memory() -> int:
    first = MEMORY.read_text().splitlines()[0]  # MemTotal in KiB, proc(5)
    return int(first.split()[1]) * 1024


def _text(path: Path) -> str:
    """Return a setting of the kernel; empty if it has none, as without IPv4."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _range(text: str) -> tuple[int, int]:
    """Return the two ends; none of the ports there are is between those of an empty text."""
    first, last = map(int, text.split() or (0, 0))
    return first, last


def _ports(text: str) -> Iterator[int]:
    """Yield the ports of a list such as ``8080,9148-9150``."""
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


class _Timex(ctypes.Structure):
    """The beginning of struct timex, adjtimex(2), and room for the rest of it."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 512),
    )


def _is_synchronised() -> bool | None:
    """Ask the kernel, as timedatectl does; any time daemon tells it."""
    asked = _Timex()  # modes 0: change nothing
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(asked)) < 0:
        return None
    return not asked.status & UNSYNCHRONISED
