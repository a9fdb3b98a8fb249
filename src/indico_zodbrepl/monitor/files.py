"""Files of this host that report on the cluster: records, histories, operations, refusals."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import Host, HostAwayError, host_of
from indico_zodbrepl.host.operations_interface import Holder
from indico_zodbrepl.monitor.findings import Results
from indico_zodbrepl.monitor.node_status import StartRefusal
from indico_zodbrepl.monitor.snapshot import EpochWord, OpenOperation
from indico_zodbrepl.probing.reading import clean

Jobs = Iterator[tuple[str, Callable[[], Results]]]

OPEN = ("running", "stopped")
"""Outcomes of operations that have not ended."""


def jobs(cluster: Cluster) -> Jobs:
    """Yield a name and a job for each file or folder; a hung disk delays no other answer.

    They yield, under these keys, ("record", keeper) an EpochWord, ("lineage", node) a Condition or
    None with its detail, ("compared", node) the epoch of its last comparison if it only followed
    since, ("disk", node) a Disk, ("control disk", "") that of the var directory, and
    ("operations", "") OpenOperations.  Records and lineages are only where the backend is guarded.
    """
    host = host_of(cluster)
    for node in cluster.nodes:
        if node.managed:
            yield f"disk {node.name}", partial(_disk, ("disk", node.name), host, node.name)
    yield "control disk", partial(_disk, ("control disk", ""), host)
    for keeper in host.keepers():
        yield f"record of {keeper}", partial(_record, host, keeper)
    if backend_of(cluster).has_epochs:
        for node in cluster.nodes:
            yield f"lineage {node.name}", partial(_lineage, host, node.name)
    yield "operations", partial(_operations, cluster, host)


def _disk(key: tuple[str, str], host: Host, name: str | None = None) -> Results:
    try:
        yield key, host.control_disk() if name is None else host.disk(name)
    except HostAwayError:
        return  # its host's own probe tells


def _record(host: Host, keeper: str) -> Results:
    try:
        record = host.record(keeper)
    except OperatorError as error:
        yield ("record", keeper), EpochWord(keeper, None, None, error.detail)
        return
    yield (
        ("record", keeper),
        (
            EpochWord(keeper, None, None, "")
            if record is None
            else EpochWord(keeper, record.epoch, record.primary, "")
        ),
    )
    yield ("recorded", keeper), record


def _lineage(host: Host, name: str) -> Results:
    try:
        found = host.history(name)
    except HostAwayError:
        return  # its host's own probe tells
    except OperatorError as error:
        yield ("lineage", name), (None, error.detail)
    else:
        if found is not None:
            yield ("lineage", name), (found.condition, clean(found.detail))
            if not found.was_writable:
                yield ("compared", name), found.epoch


def _operations(cluster: Cluster, host: Host) -> Results:
    found = []
    try:
        with os.scandir(Layout(cluster).operations) as entries:
            for entry in entries:
                if entry.name.endswith(".json"):
                    status = entry.stat()
                    operation = _operation(entry.path, status.st_mtime_ns, status.st_size)
                    if operation is not None:
                        found.append(operation)
    except FileNotFoundError:
        pass  # there was no operation yet, or a file has just been replaced
    found.sort(key=lambda each: each[0].began)
    here = cluster.here or ""
    holders = [host.likely_lock_holder()] if found else []
    yield ("operations", ""), _with_processes(found, here, holders)
    running = (process.host for operation, process in found if operation.outcome == "running")
    others = {each for each in running if each} - {here}
    if others:  # their answers may come too late
        holders += [host.likely_lock_holder(each) for each in others]
        yield ("operations", ""), _with_processes(found, here, holders)


@functools.lru_cache(maxsize=1024)
def _operation(path: str, _modified: int, _size: int) -> tuple[OpenOperation, Holder] | None:
    """Return an operation and its process; None if it has ended.

    An invalid file counts as an open operation: an operator has to check it.
    """
    name = Path(path).stem
    try:
        values = json.loads(Path(path).read_text("utf-8"))
        if values["outcome"] not in OPEN:
            return None
        return OpenOperation(
            clean(str(values["id"])),
            clean(str(values["operation"])),
            clean(str(values["plan"]["target"])),
            clean(str(values["actor"])),
            float(values["began"]),
            values["outcome"],
            at_work=False,
        ), Holder(int(values["pid"]), str(values.get("host", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return OpenOperation(
            name, "operation", name, "", 0.0, "stopped", at_work=False, damaged=True
        ), Holder(0)


def _with_processes(
    found: Iterable[tuple[OpenOperation, Holder]], here: str, holders: Iterable[Holder | None]
) -> tuple[OpenOperation, ...]:
    """Return operations with ``at_work``: the process of one holds the lock of a host.

    Its number alone proves nothing: after a restart of the machine another process has it.
    """
    held = {(each.pid, each.host or here) for each in holders if each is not None}
    return tuple(
        dataclasses.replace(
            operation,
            at_work=operation.outcome == "running" and (process.pid, process.host or here) in held,
        )
        for operation, process in found
    )


def start_refusal(found: OperatorError | None) -> StartRefusal | None:
    """Return the parts of a refusal, each one line that is safe to print."""
    if found is None:
        return None
    return StartRefusal(
        *(
            "; ".join(clean(line).strip() for line in part.splitlines())
            for part in (found.notice, found.detail, found.hint)
        )
    )
