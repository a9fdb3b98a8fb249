"""Steps of a restore."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Self

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.lookup import instance_named
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.backup import Backup, BackupFolder, Swapped, folder_named
from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.checks import indico_lacks, wait
from indico_zodbrepl.operations.exports import names
from indico_zodbrepl.operations.facts import ANSWER_SECONDS, replication
from indico_zodbrepl.operations.messages import Teller
from indico_zodbrepl.operations.model import Context, Figures, Step
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.wire import ProbeError

POLL_SECONDS = 0.2
END_SECONDS = 120.0
START_SECONDS = 120.0
EXPORT = "restore-export"


class Stage(Step):
    """Restore the backup to a verified database in a folder beside the data."""

    action = "restore-stage"

    @classmethod
    def of(cls, node: str, folder: BackupFolder, backup: Backup, seconds: float) -> Self:
        size = f"{(backup.bytes + backup.blob_bytes) / 2**20:.0f} MiB"
        return cls(
            node,
            {"folder": str(folder), "name": backup.name},
            title=f"Make a database of the backup beside {node}'s data ({size})",
            checks="sums of all pieces and files, then each transaction; servers go on meanwhile",
            undoes="remove it again",
            seconds=seconds,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        context.host.prepare(self.subject)
        made = context.host.backups().stage(
            self.subject,
            folder_named(context.cluster, str(self.arguments["folder"])),
            str(self.arguments["name"]),
            Teller(context.say),
        )
        return {
            "restored_bytes": made.bytes + made.blob_bytes,
            "restored_files": made.blobs,
            "restored_to": made.tid,
            "restored_transactions": made.transactions,
        }

    def undo(self, context: Context) -> None:
        context.host.backups().unstage(self.subject)


class EndClients(Step):
    """Stop all Indico instances, because they cache what the backup lacks."""

    action = "restore-end-clients"

    @classmethod
    def of(cls, node: str, instances: tuple[str, ...]) -> Self:
        return cls(
            node,
            {"instances": [*instances]},
            title=f"Stop Indico ({', '.join(instances)})",
            checks="no instance goes on with what the backup lacks",
            undoes="start those that ran",
            seconds=END_SECONDS,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        by_host: dict[str, list[str]] = {}
        for name in _names(self):
            instance = instance_named(context.cluster, name)
            by_host.setdefault(instance.on or "", []).extend(instance.programs)
        before = context.results.get((self.action, self.subject), {}).get("ended", [])
        deadline, ended = time.monotonic() + self.seconds_to_act, []
        for host, programs in by_host.items():
            left = deadline - time.monotonic()
            ended += context.host.stop_stage(host, programs, progress=context.say, seconds=left)
        known = before if isinstance(before, list) else []
        return {"ended": [*known, *(name for name in ended if name not in known)]}

    def undo(self, context: Context) -> None:
        found = context.results.get((self.action, self.subject), {}).get("ended")
        programs = found if isinstance(found, list) else _programs(context, self)
        for program in programs:
            context.host.start_program(str(program))


def _programs(context: Context, step: Step) -> list[str]:
    return [
        program
        for name in _names(step)
        for program in instance_named(context.cluster, name).programs
    ]


class Export(Step):
    """Export what only the present data have to a folder that appears when complete."""

    action = EXPORT

    @classmethod
    def of(cls, node: str, folder: Path, seen: int, seconds: float) -> Self:
        what = f"what {node} has and the backup lacks ({seen} as far as seen)"
        return cls(
            node,
            {"folder": str(folder), "seen": seen},
            title=f"Export {what} to {folder}",
            checks="no process has its data open",
            seconds=seconds,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        """Compare again after a kill: transactions may have been added since."""
        folder = Path(str(self.arguments["folder"]))
        replaced = context.host.backups().export_replaced(self.subject, folder)
        found = replaced.tail
        figures: dict[str, object] = {"fingerprint": replaced.fingerprint}
        if found.damage:
            context.say(found.damage)
            if found.unread:
                context.say(f"bytes of which nothing could be made: {found.unread}")
                figures["unread_bytes"] = found.unread
        if found.folder is not None:
            context.say(f"{transactions(found.transactions)} exported")
            objects = names(context.host, self.subject, found.folder)
            for what in objects:
                context.say(what)
            figures |= {
                "exported": found.transactions,
                "exported_to": str(found.folder),
                "exported_objects": [*objects],
            }
        if context.plan.loss is None or context.plan.loss.exact:
            figures["lost_transactions"] = found.transactions
        return figures  # type: ignore[return-value]


class Swap(Step):
    """Put the restored database in its place; the old data are kept in a folder beside it."""

    action = "restore-swap"

    @classmethod
    def of(cls, node: str, aside: Path) -> Self:
        return cls(
            node,
            {"aside": str(aside)},
            title=f"Put the database in {node}'s data directory, keep the old one in {aside}",
            checks="the old one is as it was when it was exported",
            seconds=END_SECONDS,
            after_no_return=True,
        )

    def check(self, context: Context) -> Figures | None:
        found = self._swapped(context)
        return _kept(found) if found.done else None

    def do(self, context: Context) -> Figures:
        fingerprint = context.results.get((EXPORT, self.subject), {}).get("fingerprint")
        return _kept(context.host.backups().swap(self.subject, self._aside, fingerprint))

    def is_untouched(self, context: Context) -> bool:
        """Return True if the folder for the old data, which is made first, is missing."""
        return self._swapped(context).untouched

    def _swapped(self, context: Context) -> Swapped:
        return context.host.backups().swapped(self.subject, self._aside)

    @property
    def _aside(self) -> Path:
        return Path(str(self.arguments["aside"]))


class Lead(Step):
    """Make the restored node the primary of a new epoch, so that no older data return."""

    action = "restore-lead"

    @classmethod
    def of(cls, commands: Commands, node: str, epoch: int, reason: str, seconds: float) -> Self:
        return cls(
            node,
            {"epoch": epoch, "reason": reason},
            title=f"Start {node} as the primary of epoch {epoch}",
            checks="no other node takes writes; epoch records are raised first",
            command=commands.zodbrepl("node", "start", node, "--force", "--reason", "TEXT"),
            seconds=seconds,
            after_no_return=True,
        )

    def check(self, context: Context) -> Figures | None:
        found = replication(context.cluster, self.subject)
        if found is None or found.role is not ServerRole.PRIMARY or found.read_only:
            return None
        return {"epoch": found.epoch} if (found.epoch or 0) >= _epoch(self) else None

    def do(self, context: Context) -> Figures:
        present = context.host.state(self.subject)
        if present.forced is not None and present.epoch >= _epoch(self):
            context.host.start_node(
                self.subject,
                progress=context.say,
                seconds=self.seconds_to_act,
            )
            return {"epoch": present.epoch}
        done = context.host.force_start(
            self.subject,
            actor=operation.actor(),
            reason=f"restored from a backup: {self.arguments['reason']}".rstrip(": "),
            progress=context.say,
            seconds=self.seconds_to_act,
        )
        return {"epoch": done.epoch}


class Client(Step):
    """Start an Indico instance without its cache, and see that it reads the restored data."""

    action = "restore-client"

    @classmethod
    def of(cls, commands: Commands, instance: str) -> Self:
        return cls(
            instance,
            {},
            title=f"Start Indico instance {instance}",
            checks="it remembers nothing of before, and can save",
            command=commands.zodbrepl("node", "restart-client", instance),
            seconds=START_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        instance = instance_named(context.cluster, self.subject)
        deadline = time.monotonic() + self.seconds - 2.0
        context.host.restart_instance(
            self.subject, progress=context.say, seconds=self.seconds - 2.0
        )
        missing = partial(indico_lacks, instance.address)
        wait(context, self, missing, POLL_SECONDS, deadline)
        return {}


class See(Step):
    """Wait until the node answers with the restored data or later transactions."""

    action = "restore-see"

    @classmethod
    def of(cls, commands: Commands, node: str) -> Self:
        return cls(
            node,
            {},
            title=f"Make sure that {node} has the restored data",
            checks="its last transaction is that of the backup, or a later one",
            command=commands.zodbrepl("status"),
            seconds=START_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        cluster, node = context.cluster, context.cluster.node(self.subject)
        wanted = int(str(context.results[("restore-stage", self.subject)]["restored_to"]), 16)
        try:
            found = (
                backend_of(cluster).ask(cluster, node, time.monotonic() + ANSWER_SECONDS).last_tid
            )
        except ProbeError as error:
            raise OperatorError(
                f"node {node.name} does not answer",
                error.detail,
                Commands.here(cluster).zodbrepl("status"),
                ExitCode.TIMED_OUT,
            ) from error
        if found < wanted:
            raise OperatorError(
                f"node {node.name} has not what was restored",
                f"its last transaction is {found:016x}, not {wanted:016x}",
                exit_code=ExitCode.REFUSED,
            )
        return {"last_tid": f"{found:016x}"}


def _kept(found: Swapped) -> Figures:
    return {"kept_in": None if found.kept_in is None else str(found.kept_in)}


def _names(step: Step) -> list[str]:
    found = step.arguments["instances"]
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def _epoch(step: Step) -> int:
    return int(str(step.arguments["epoch"]))
