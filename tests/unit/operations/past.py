"""Operations that were, for the pages of the journal."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations import journal, operation
from indico_zodbrepl.operations.model import Finding, JsonValue, Loss, Plan, Step, Verdict
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress, StepRecord
from indico_zodbrepl.operations.outages import OUTAGE, Outage

BEGAN = 1795172767.123
"""2026-11-20 11:06:07 UTC."""
TAIL = "a-2-20261120T110607Z"


def step(action: str, subject: str, title: str, no_return: bool = False) -> Step:
    values = {
        "action": action,
        "subject": subject,
        "arguments": {},
        "title": title,
        "checks": f"whether {subject} can be reached",
        "undoes": "" if no_return else "nothing to take back",
        "command": f"bin/zodbrepl node {action} {subject}",
        "seconds": 30.0,
        "after_no_return": no_return,
    }
    return Step.from_json(values)


def failover(folder: Path, number: int = 0, outcome: Outcome = Outcome.INCOMPLETE) -> Operation:
    """A failover from a to b that lost three transactions, which were exported to a folder."""
    steps = (
        step("fence", "a", "end the server of a, and keep it from starting"),
        step("export", "a", "export what only a has"),
        step("promote", "b", "make b the primary of epoch 2", True),
        step("follow", "c", "let c follow b", True),
    )
    plan = Plan(
        "failover",
        "b",
        "a",
        "a's disk is broken",
        2,
        steps,
        Loss("a", 3, 1.5, True, "040d2a5a9d33ff11", "3 transactions of 1.5 s, from 2 users"),
        (
            Finding(Verdict.FINE, "b", "runs as secondary", "it answered at 11:06:06"),
            Finding(Verdict.WARNING, "a", "does not answer", "no answer within 2 s"),
            Finding(Verdict.AGAINST, "c", "has <b>another</b> history"),
        ),
    )
    began = BEGAN + 60 * number
    figures: list[dict[str, JsonValue]] = [
        {"killed": [812]},
        {
            "lost_transactions": 3,
            "exported_to": str(folder),
            "diverged": ["a"],
            "exported_objects": ['Conference 7 "Spring <school>"', "and 2 more objects"],
        },
        {"promoted_in_place": True, "writable_after_seconds": 4.25},
    ]
    records = [
        StepRecord(Progress.DONE, began + at, began + at + 1, told)
        for at, told in enumerate(figures)
    ]
    records.append(StepRecord(Progress.FAILED, began + 3, began + 5, {}, "c: no answer within 2 s"))
    begun = operation.new("test", plan, "anna", began)
    return dataclasses.replace(begun, ended=began + 5, outcome=outcome, records=tuple(records))


def packing(number: int, actor: str = "cron") -> Operation:
    """Something of one step, done."""
    plan = Plan("pack", "test", "", "weekly", 0, (), None, ())
    begun = operation.new("test", plan, actor, BEGAN + 60 * number)
    return dataclasses.replace(begun, ended=begun.began + 9, outcome=Outcome.DONE)


def outage(number: int = 0, first_save: float | None = 3.4) -> Operation:
    """An outage from 194.6 s before the failover of that number, as the monitor journals it."""
    began = BEGAN + 60 * number
    plan = Plan(OUTAGE, "b", "a", "", 0, (), None, ())
    ended = began + (5 if first_save is None else first_save)
    found = Outage(
        began - 194.6,
        ended,
        began - 194.6,
        None if first_save is None else ended,
        197.0,
        exact=True,
    )
    begun = operation.new("test", plan, "monitor", found.began)
    return dataclasses.replace(begun, ended=ended, outcome=Outcome.DONE, told=found.figures())


def back_up(cluster: Cluster, name: str) -> None:
    """Leave what a backup leaves: its entry in the journal, and its file; no name: nothing new."""
    kind = "none" if not name else "full" if name.endswith(".fs") else "incremental"
    folder = cluster.backup_directory
    assert folder is not None
    with journal.journaled(cluster, "backup", "b", "each night") as told:
        told.figures |= {
            "folder": str(folder),
            "kind": kind,
            "name": name,
            "bytes": 907_000 if name else 0,
            "whole": 1_258_291,
            "last_tid": "03ff000000000001",
            "seconds": 1.5,
        }
    folder.mkdir(exist_ok=True)
    if name:
        (folder / name).write_bytes(b"FS21")


def keep(cluster: Cluster, *entries: Operation) -> None:
    for each in entries:
        journal.append(cluster, each)


def tail(cluster: Cluster, name: str = TAIL) -> Path:
    """A folder of an exported tail, with a blob."""
    folder = Layout(cluster).lost_tails / name
    (folder / "blobs" / "0x01").mkdir(parents=True)
    (folder / "tail.json").write_text(json.dumps({"format": 1, "transactions": []}))
    (folder / "tail.fs").write_bytes(b"FS30" + bytes(3_000_000))
    (folder / "blobs" / "0x01" / "0x02.blob").write_bytes(b"a poster")
    return folder
