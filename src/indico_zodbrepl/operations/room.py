"""Explain a step that failed for lack of disk space: where, what is free, what is needed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.disks import Disk, Room, mib
from indico_zodbrepl.operations.model import Context, Step

FULL = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))


class Place(NamedTuple):
    """A folder that a step writes to, and its disk."""

    called: str
    folder: Path
    disk: Disk


def may_pass(error: OperatorError) -> bool:
    """Return True if an error says that a disk is full or fails, which may not last."""
    return is_full(error) or os.strerror(errno.EIO) in error.detail


def is_full(error: OperatorError) -> bool:
    """Return True if an error, of this program or one that it ran, says that a disk is full."""
    return any(text in f"{error.notice}\n{error.detail}" for text in FULL)


def explained(context: Context, step: Step, error: OperatorError) -> OperatorError:
    """Return the error of a step that failed for lack of space, with the amounts in words.

    Returns other errors as they are.  The exit code stays.
    """
    if not is_full(error):
        return error
    try:
        needed = step.writes(context)
    except OperatorError:  # it can't be measured while the disk is full
        needed = None
    places = list(_places(context, step))
    full = [each for each in places if _is_short(each, needed)] or places
    told = [f"{each.called} ({each.folder}): {each.disk}" for each in full]
    if needed is not None:
        told.append(f"the step still writes {mib(needed)}")
    last = (error.detail or error.notice).strip().splitlines()[-1]
    folders = " ".join(Commands.here(context.cluster).path(each.folder) for each in full)
    return OperatorError(
        "no space left on the disk",
        "; ".join([*told, last]),
        f"make room there: df -h {folders}",
        error.exit_code,
    )


def _is_short(place: Place, needed: int | None) -> bool:
    return place.disk.room is Room.FULL or place.disk.free < (needed or 0)


def _places(context: Context, step: Step) -> Iterator[Place]:
    cluster, host = context.cluster, context.host
    if any(node.name == step.subject for node in cluster.nodes):
        disk = host.disk(step.subject)
        if disk is not None:
            folder = cluster.node(step.subject).data_directory
            yield Place(f"the disk of node {step.subject}", folder, disk)
    control = host.control_disk()
    if control is not None:
        yield Place("the disk of the control host", Layout(cluster).var, control)
