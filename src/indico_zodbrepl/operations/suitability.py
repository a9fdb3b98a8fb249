"""Judge whether a host suits a cluster in production, from readings; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.host.datafs_answers import BlobAudit
from indico_zodbrepl.host.disks import Room, gib
from indico_zodbrepl.host.system import Folder, System
from indico_zodbrepl.operations.model import Finding, Verdict

SLOW_FSYNC_MS = 20.0
"""A commit waits for one; a hard disk without a write cache needs about 10 ms."""

LEAST_FILES, FEW_FILES = 1024, 4096
"""supervisord does not start with fewer; each connection and each database file takes one."""

LEAST_PROCESSES = 200
"""supervisord does not start with fewer."""

NODE_BYTES, WORKER_BYTES = 512 << 20, 1 << 30
"""What the production guide plans for a storage server and for a worker of Indico."""

VOLATILE = frozenset({"tmpfs", "ramfs"})
REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.glusterfs"})

FINE, WARNING, AGAINST = Verdict.FINE, Verdict.WARNING, Verdict.AGAINST


def judge(cluster: Cluster, system: System) -> tuple[Finding, ...]:
    """Return a finding for each thing that was looked at.

    ``AGAINST`` means that the cluster can't run, or that its data would not be safe; ``WARNING``,
    that it runs, but slower or with less protection than expected.
    """
    return (
        _user(system),
        _clock(system),
        *_machine(cluster, system),
        *_limits(system),
        *(each for folder in system.folders for each in _folder(system, folder)),
        *_shared_disks(system.folders),
        *_secrets(system),
        *_ports(system),
    )


def blobs(node: str, found: BlobAudit | None) -> Iterator[Finding]:
    """Yield a finding about the files of a node's blobs; None if it has no data file."""
    if found is None or not (found.blobs or found.missing or found.unreferenced):
        return
    first = found.first_missing
    if first is not None:
        text = (
            f"{_files(found.missing)} missing, the newest of them {first.path}: object "
            f"{first.oid} in transaction {first.tid}"
        )
        yield Finding(AGAINST, f"blobs of {node}", text)
    if found.unreferenced:
        text = (
            f"{_files(found.unreferenced)} ({gib(found.unreferenced_bytes)}) without a "
            f"transaction, such as {found.first_unreferenced}: the next pack puts them aside"
        )
        yield Finding(WARNING, f"blobs of {node}", text)
    if first is None and not found.unreferenced:
        text = f"{_files(found.blobs)}, {gib(found.bytes)}"
        yield Finding(FINE, f"blobs of {node}", text)


def _files(count: int) -> str:
    return "1 blob file" if count == 1 else f"{count} blob files"


def _user(system: System) -> Finding:
    if system.user == "root":
        text = "this is root: a fault in Indico would be one of the whole host; use another user"
        return Finding(AGAINST, "user", text)
    return Finding(FINE, "user", system.user)


def _clock(system: System) -> Finding:
    if system.synchronised is None:
        return Finding(WARNING, "clock", "the kernel does not tell whether it is synchronised")
    if not system.synchronised:
        text = (
            "not synchronised: transactions and backups carry its times; "
            "install chrony or enable systemd-timesyncd"
        )
        return Finding(WARNING, "clock", text)
    return Finding(FINE, "clock", "synchronised")


def _machine(cluster: Cluster, system: System) -> Iterator[Finding]:
    servers = sum(node.has_program for node in cluster.local.nodes)
    workers = sum(each.workers for each in cluster.local.indico)
    planned = servers * NODE_BYTES + workers * WORKER_BYTES
    verdict = FINE if system.memory >= planned else WARNING
    text = f"{gib(system.memory)}; {gib(planned)} planned for nodes and Indico"
    yield Finding(verdict, "memory", text)
    wanted = max(1, workers) + min(1, servers)
    verdict = FINE if system.cores >= wanted else WARNING
    text = f"{system.cores}; one for the primary and one for each worker of Indico make {wanted}"
    yield Finding(verdict, "processors", text)


def _limits(system: System) -> Iterator[Finding]:
    files, processes = system.open_files, system.processes
    if files is not None and files < LEAST_FILES:
        text = f"{files} at most: supervisord needs {LEAST_FILES}; raise LimitNOFILE or ulimit -Hn"
        yield Finding(AGAINST, "open files", text)
    elif files is not None and files < FEW_FILES:
        text = f"{files} at most: each connection takes one; raise LimitNOFILE or ulimit -Hn"
        yield Finding(WARNING, "open files", text)
    else:
        yield Finding(FINE, "open files", _limit(files))
    if processes is not None and processes < LEAST_PROCESSES:
        text = f"{processes} at most: supervisord needs {LEAST_PROCESSES}; raise ulimit -Hu"
        yield Finding(AGAINST, "processes", text)
    else:
        yield Finding(FINE, "processes", _limit(processes))


def _limit(number: int | None) -> str:
    return "no limit" if number is None else f"{number} at most"


def _folder(system: System, folder: Folder) -> Iterator[Finding]:
    """Yield findings about a folder's access, its disk and the speed of its disk."""
    subject = folder.purpose
    if not folder.there:
        if not folder.makeable:
            text = f"{folder.path} is missing and {system.user} can't make it"
            yield Finding(AGAINST, subject, text)
            return
        yield Finding(FINE, subject, f"{folder.path} will be made")
    elif folder.problem:
        yield Finding(AGAINST, subject, f"{folder.path}: {folder.problem}")
        return
    elif folder.owner != system.user:
        text = f"{folder.path} belongs to {folder.owner}, not to {system.user}"
        yield Finding(AGAINST, subject, text)
    elif folder.private and folder.mode & 0o077:
        text = f"{folder.path} has mode {folder.mode:o}: others can look in; chmod 700"
        yield Finding(WARNING, subject, text)
    else:
        yield Finding(FINE, subject, f"{folder.path}, writable")
    yield from _disk(folder)


def _disk(folder: Folder) -> Iterator[Finding]:
    subject = f"disk of {folder.purpose}"
    if folder.kind in VOLATILE:
        text = f"{folder.kind}: it is in memory, and gone after a reboot"
        yield Finding(AGAINST, subject, text)
        return
    if folder.kind in REMOTE:
        text = f"{folder.kind}: locks and flushes depend on another host; use a local disk"
        yield Finding(WARNING, subject, text)
    if folder.disk is not None:
        room = folder.disk.room
        verdict = {Room.ENOUGH: FINE, Room.LOW: WARNING, Room.FULL: AGAINST}[room]
        text = f"{folder.disk}" if room is Room.ENOUGH else f"{room}: {folder.disk}"
        yield Finding(verdict, subject, text)
    if folder.fsync_ms is not None:
        slow = folder.fsync_ms > SLOW_FSYNC_MS
        text = f"{folder.fsync_ms:.2f} ms to flush 4 KiB to disk, median"
        if slow:
            text += "; each commit waits for that"
        yield Finding(WARNING if slow else FINE, subject, text)


def _shared_disks(folders: Iterable[Folder]) -> Iterator[Finding]:
    """Yield what is lost together with one disk."""
    data: dict[int, list[str]] = {}
    backups: dict[int, str] = {}
    for folder in folders:
        if folder.disk is None:
            continue
        if folder.purpose.startswith("data of "):
            data.setdefault(folder.disk.device, []).append(folder.purpose)
        elif folder.purpose == "backups":
            backups[folder.disk.device] = folder.purpose
    for device, purposes in data.items():
        if len(purposes) > 1:
            text = f"{', '.join(purposes)} are on one: its loss is the loss of all of them"
            yield Finding(WARNING, "one disk", text)
        if device in backups:
            text = f"backups and {', '.join(purposes)} are on one: copy the backups elsewhere"
            yield Finding(WARNING, "one disk", text)


def _secrets(system: System) -> Iterator[Finding]:
    for secret in system.secrets:
        if secret.problem:
            yield Finding(AGAINST, secret.purpose, f"{secret.path}: {secret.problem}")
        elif secret.mode & 0o007:
            text = f"{secret.path} has mode {secret.mode:o}: all users can read it; chmod o-rwx"
            yield Finding(AGAINST, secret.purpose, text)
        else:
            yield Finding(FINE, secret.purpose, f"{secret.path}, mode {secret.mode:o}")


def _ports(system: System) -> Iterator[Finding]:
    for port in system.ports:
        if port.problem:
            text = f"{port.endpoint.address} ({port.endpoint}): {port.problem}"
            yield Finding(AGAINST, "port", text)
    first, last = system.ephemeral
    outgoing = sorted(
        number
        for number in {port.endpoint.address.port for port in system.ports} - system.reserved
        if first <= number <= last
    )
    if outgoing:
        text = (
            f"{', '.join(map(str, outgoing))}: the kernel gives {first} to {last} to outgoing "
            "connections, also before the cluster starts; choose lower ones"
        )
        yield Finding(WARNING, "ports", text)
    fine = [port for port in system.ports if not port.problem]
    ours = sum(port.ours for port in fine)
    yield Finding(FINE, "ports", f"{len(fine) - ours} free, {ours} used by this cluster")
