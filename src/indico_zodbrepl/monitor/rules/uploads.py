"""Rules about files that users upload to Indico: where they are, and whether each host has them."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.monitor.host_status import HostStatus
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import Facts
from indico_zodbrepl.monitor.snapshot import IndicoStatus
from indico_zodbrepl.monitor.words import listed
from indico_zodbrepl.probing.answers import Alert, Level


def warnings(facts: Facts) -> Iterator[Alert]:
    if facts.cluster.files is FileStore.ARCHIVE:
        for host in _with_indico(facts):
            if host.archive_problem:
                yield _unusable(facts, host)
        yield from _not_shared(facts)
    else:
        yield from _left_in_archive(facts)
    for node in facts.nodes:
        if node.blobs_missing:
            yield _lacks_blobs(facts, node)
    for instance in facts.indico:
        if instance.files_missing:
            yield _missing(facts, instance)


def _with_indico(facts: Facts) -> list[HostStatus]:
    """Return the hosts that answer and have an Indico instance."""
    names = {instance.host for instance in facts.indico}
    return [host for host in facts.hosts if host.up and host.name in names]


def _differ(hosts: list[HostStatus]) -> bool:
    """Return True if it is known that hosts have different folders of uploaded files."""
    return len({host.archive for host in hosts if host.archive}) > 1


def _unusable(facts: Facts, host: HostStatus) -> Alert:
    return Alert(
        Level.WARNING,
        host.name,
        f"host {host.name} can't keep uploaded files",
        f"{host.archive_problem[:1].upper()}{host.archive_problem[1:]}. Uploads on this host fail, "
        "and files are answered 503.",
        "mount the folder that the hosts share there, writable for the user of the cluster; then "
        f"`{facts.commands.zodbrepl('up')}`",
    )


def _not_shared(facts: Facts) -> Iterator[Alert]:
    hosts = _with_indico(facts)
    if not _differ(hosts):
        return
    names = listed([host.name for host in hosts])
    hint = "mount one folder as archive-directory on each of them"
    shape = SHAPES.get(facts.cluster.backend)
    if shape is None or shape.keeps_blobs:
        hint += ", or keep new files in the database: `files blobs` in cluster.conf"
    yield Alert(
        Level.WARNING,
        "",
        f"uploaded files differ: {names} share no archive-directory",
        "A file that is uploaded on one host is missing on the others: they answer it with 503.",
        f"{hint}; then `{facts.commands.zodbrepl('up')}`",
    )


def _left_in_archive(facts: Facts) -> Iterator[Alert]:
    """Report files that were uploaded before new ones went into the database."""
    count = max((each.files_in_archive or 0 for each in facts.indico), default=0)
    if not count:
        return
    files = "1 uploaded file is" if count == 1 else f"{count} uploaded files are"
    command = f"`{facts.commands.zodbrepl('files', 'import')}`"
    hosts = _with_indico(facts)
    if _differ(hosts):
        yield Alert(
            Level.WARNING,
            "",
            f"{files} in the archive, and {listed([host.name for host in hosts])} share none",
            "Each of these files is on one host only; the others answer it with 503.",
            f"put them into the database, on the host that has them: {command}",
        )
        return
    yield Alert(
        Level.NOTICE,
        "",
        f"{files} in the archive, not in the database",
        "They are not replicated, and are in no backup of the cluster.",
        f"put them into the database: {command}",
    )


def _lacks_blobs(facts: Facts, node: NodeStatus) -> Alert:
    count = node.blobs_missing
    files = "1 file" if count == 1 else f"{count} files"
    return Alert(
        Level.CRITICAL,
        node.name,
        f"{facts.called(node)} lacks uploaded files that its transactions refer to",
        f"{files}, such as {node.blob_missing}. It sent the transactions to followers without "
        "them. No pack removed them; somebody else did, or a restore left them out.",
        "copy each to this path from the folder `blobs` of another node or a backup; then "
        f"`{facts.commands.zodbrepl('history')}` shows which followers need a clone",
    )


def _missing(facts: Facts, instance: IndicoStatus) -> Alert:
    count = instance.files_missing
    requests = "1 request" if count == 1 else f"{count} requests"
    verify = facts.commands.zodbrepl("files", "verify")
    return Alert(
        Level.WARNING,
        instance.name,
        f"Indico instance {instance.name} misses uploaded files",
        f"It answered {requests} of the last 10 minutes with 503, the last one for "
        f"{instance.file_missing}.",
        f"see what is missing: `{verify}`; if it is a folder: mount it again",
    )
