"""Hide the contents of recovery exports from viewers, in operations and in jobs."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.admin import journal_view
from indico_zodbrepl.admin.access.gate import why_not_see_contents
from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations.model import Figures
from indico_zodbrepl.operations.operation import Operation

CONTENTS = frozenset({"exported_objects", "title"})
"""Figures that name what an export holds."""


def journal(cluster: Cluster) -> journal_view.Journal:
    """Return what the sender may see of the journal.  Raises OperatorError."""
    entries, notices = journal_view.read(cluster)
    if why_not_see_contents():
        entries = tuple(map(without_contents, entries))
    return entries, notices


def operation(entry: Operation) -> Operation:
    """Return what the sender may see of an operation."""
    return without_contents(entry) if why_not_see_contents() else entry


def job(found: Job) -> Job:
    """Return what the sender may see of a job: its output may name what an export holds."""
    return dataclasses.replace(found, output=()) if why_not_see_contents() else found


def without_contents(entry: Operation) -> Operation:
    """Return an operation without what names the contents of exports.

    These are figures, and the details of errors of recoveries and of operations that export.
    """
    told = entry.plan.operation == "recover" or entry.plan.loss is not None
    return dataclasses.replace(
        entry,
        told=_without(entry.told),
        remark=_notice(entry.remark) if told else entry.remark,
        records=tuple(
            dataclasses.replace(
                each,
                figures=_without(each.figures),
                error=_notice(each.error) if told else each.error,
            )
            for each in entry.records
        ),
    )


def _notice(error: str) -> str:
    """Return the first line of an error, which names no object."""
    return error.partition("\n")[0]


def _without(figures: Figures) -> Figures:
    return {name: value for name, value in figures.items() if name not in CONTENTS}
