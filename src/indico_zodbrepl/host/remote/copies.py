"""Copies of the files of operations on all hosts: write them everywhere, and catch up."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import majority, operation_files
from indico_zodbrepl.host.interface import Host
from indico_zodbrepl.host.operations_interface import Holder, Index, LockLostError, Texts
from indico_zodbrepl.host.remote import majority_lock
from indico_zodbrepl.host.remote.client import LOCK_KEYS
from indico_zodbrepl.host.remote.identities import of_hosts

WRITE_SECONDS = 5.0
"""Seconds for other hosts to write; those without a lock of ours get less."""
READ_SECONDS = 1.2
"""Seconds for other hosts to answer what they have."""


def spread(cluster: Cluster, host: Host, texts: Texts, *, majority: bool) -> None:
    """Write files and lines on this host, then on all others that can be reached.

    While this process holds the locks of a majority, those are the hosts whose locks it holds: the
    others copy what they lack when they are back.  Arguments and errors as of
    ``Host.spread_operations``; LockLostError if a host has a newer file.
    """
    own = cluster.here or ""
    operation_files.keep(cluster, texts)
    lock = majority_lock.held_in(cluster)
    others = [each.name for each in cluster.hosts if each.name != own]
    names = others if lock is None else lock.hosts()
    is_held = Layout(cluster).operation_lock in LOCK_KEYS
    seconds = WRITE_SECONDS if is_held else READ_SECONDS
    found = of_hosts(names, lambda name: host.keep_operations(name, texts), seconds)
    for answer in found.values():
        if isinstance(answer, LockLostError):
            raise answer
    if majority:
        _refuse_few(cluster, {own: None, **found})


def _refuse_few(cluster: Cluster, found: Mapping[str, object]) -> None:
    """Raise OperatorError unless a majority of the hosts has written."""
    failed = {name: each for name, each in found.items() if isinstance(each, OperatorError)}
    needed = majority.quorum(len(cluster.hosts))
    if len(found) - len(failed) >= needed:
        return
    said = [f"host {name}: {each.notice}: {each.detail}" for name, each in failed.items()]
    away = [each.name for each in cluster.hosts if each.name not in found]
    raise OperatorError(
        "the operation's progress can't be written on a majority of the hosts",
        "; ".join([*said, *(f"host {name} is away" for name in away)]),
        f"{needed} of {len(cluster.hosts)} hosts must have it",
        ExitCode.TIMED_OUT,
    )


def catch_up(cluster: Cluster, host: Host) -> list[str]:
    """Copy what other hosts have and this one lacks; return the hosts that do not answer.

    Raises OperatorError if this host's files can't be read or written.
    """
    own = operation_files.index(cluster)
    names = [each.name for each in cluster.hosts if each.name != cluster.here]
    found = of_hosts(names, lambda name: host.operations_index(name, own.digest), READ_SECONDS)
    away = [name for name, each in found.items() if isinstance(each, OperatorError)]
    for name, theirs in found.items():
        if isinstance(theirs, Index) and theirs.digest != own.digest:
            own = operation_files.index(cluster)  # an earlier one may have had the same
            if not _copy(cluster, host, name, lacking(own, theirs)):
                away.append(name)
    return away


def lacking(own: Index, theirs: Index) -> tuple[list[str], list[str]]:
    """Return the files and lines that another host has newer than this one, by name and id."""
    return _newer(own.documents, theirs.documents), _newer(own.lines, theirs.lines)


def _newer(own: Mapping[str, int], theirs: Mapping[str, int]) -> list[str]:
    return sorted(name for name, version in theirs.items() if version > own.get(name, -1))


def _copy(cluster: Cluster, host: Host, name: str, wanted: tuple[list[str], list[str]]) -> bool:
    if not any(wanted):
        return True
    try:
        texts = host.operations_texts(name, *wanted)
    except OperatorError:
        return False
    for document, text in texts.documents.items():
        with contextlib.suppress(LockLostError):  # a newer file has come meanwhile
            operation_files.keep(cluster, Texts({document: text}))
    operation_files.keep(cluster, Texts({}, texts.lines))
    return True


def lock_holder(cluster: Cluster, host: Host, name: str) -> Holder | None:
    """Return who holds the lock of another host; None also if that host does not answer."""
    names = [each.name for each in cluster.hosts if each.name == name]
    found = of_hosts(names, host.lock_holder, READ_SECONDS).get(name)
    return found if isinstance(found, Holder) else None


def lock_holders(cluster: Cluster, host: Host) -> list[Holder]:
    """Return who holds locks of operations, on any host that answers."""
    own = host.lock_holder(cluster.here or "")
    if own is not None:
        return [own]
    names = [each.name for each in cluster.hosts if each.name != cluster.here]
    found = of_hosts(names, host.lock_holder, READ_SECONDS)
    return [each for each in found.values() if isinstance(each, Holder)]
