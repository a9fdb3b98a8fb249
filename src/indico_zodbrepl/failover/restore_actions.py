"""The steps of a restore that nothing else needs; see ``actions``."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from ..backends import backend_of
from ..cluster import Node
from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..node import operations, run, state, supervised
from ..node.backups import Keeper, keeper_of, staged_folder
from ..node.starts import instance_named
from ..node.supervisor import Supervisor
from ..probing.answers import ServerRole
from ..probing.probes import probe_indico
from ..probing.wire import ProbeError
from . import operation
from .actions import Context, Repeatable
from .asking import ANSWER_SECONDS
from .comparing import transactions
from .contents import contents
from .moving import move
from .steps import Figures, Step
from .taking_over import replication
from .telling import Teller

POLL_SECONDS = 0.2


class Stage(Repeatable):
    """A database of the backup, in a folder beside the data, verified."""

    def do(self, context: Context, step: Step) -> Figures:
        node, keeper = _subject(context, step)
        run.prepare(context.cluster, node)
        made = keeper.stage(node, Path(str(step.arguments["folder"])),
                            str(step.arguments["name"]), Teller(context.say))
        return {"restored_bytes": made.bytes, "restored_to": made.tid,
                "restored_transactions": made.transactions}

    def undo(self, context: Context, step: Step) -> None:
        shutil.rmtree(staged_folder(context.cluster.node(step.subject)), ignore_errors=True)


class EndClients(Repeatable):
    """No Indico instance runs, so that none goes on with what the backup lacks."""

    def do(self, context: Context, step: Step) -> Figures:
        programs = [instance_named(context.cluster, name).program for name in _names(step)]
        before = context.results.get((step.action, step.subject), {}).get("ended", [])
        ended = supervised.end(context.cluster, programs,
                               time.monotonic() + step.seconds - 1.0, context.say)
        known = before if isinstance(before, list) else []
        return {"ended": [*known, *(name for name in ended if name not in known)]}

    def undo(self, context: Context, step: Step) -> None:
        found = context.results.get((step.action, step.subject), {}).get("ended")
        programs = found if isinstance(found, list) else [
            instance_named(context.cluster, name).program for name in _names(step)]
        supervisor = Supervisor(context.cluster)
        for program in programs:
            supervisor.start(str(program))


class Export(Repeatable):
    """What only the present data have, in a folder that appears when it is complete."""

    def do(self, context: Context, step: Step) -> Figures:
        """After a kill it is looked at anew, as somebody may have written since."""
        node, keeper = _subject(context, step)
        folder = Path(str(step.arguments["folder"]))
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.is_dir():
            folder.rename(_free_name(folder))
        with keeper.held(node):
            before = keeper.fingerprint(node)
            found = keeper.tail(node, folder)
        figures: dict[str, object] = {"fingerprint": before}
        if found.damage:
            context.say(found.damage)
            if found.unread:
                context.say(f"bytes of which nothing could be made: {found.unread}")
                figures["unread_bytes"] = found.unread
        if found.folder is not None:
            context.say(f"{transactions(found.transactions)} exported")
            for what in contents(found.folder):
                context.say(what)
            figures |= {"exported": found.transactions, "exported_to": str(found.folder),
                        "exported_objects": [*contents(found.folder)]}
        if context.plan.loss is None or context.plan.loss.exact:
            figures["lost_transactions"] = found.transactions
        return figures  # type: ignore[return-value]


class Swap(Repeatable):
    """The restored database is the node's; what was there before is in a folder beside it."""

    def check(self, context: Context, step: Step) -> Figures | None:
        node, keeper = _subject(context, step)
        if staged_folder(node).exists() or not keeper.database(node).exists():
            return None
        return self._kept(step, keeper, node)

    def do(self, context: Context, step: Step) -> Figures:
        node, keeper = _subject(context, step)
        kept, new = Path(str(step.arguments["aside"])), staged_folder(node)
        database = new / keeper.database(node).relative_to(node.data_directory)
        try:
            if database.exists():
                with keeper.held(node):
                    self._refuse_changed(context, step, keeper, node)
                    # What the new data has no longer is the new one's already, in its place.
                    old = [name for name in keeper.names
                           if keeper.database(node).exists() or (new / name).exists()]
                    move(node.data_directory, kept, (*keeper.beside, *old))
                    move(new, node.data_directory, keeper.names)
            if not keeper.database(node).exists():
                raise OperatorError(f"the restored database of {node.name} is gone", str(new),
                                    Commands.here(context.cluster).zodbrepl(
                                        "restore", node.name), ExitCode.REFUSED)
            if new.exists():
                shutil.rmtree(new)
        except OSError as error:
            raise OperatorError(f"the database can't be put in its place: {error.strerror}",
                                str(error.filename)) from error
        return self._kept(step, keeper, node)

    def is_untouched(self, context: Context, step: Step) -> bool:
        """The folder for the old data is the first thing that is made."""
        return (staged_folder(context.cluster.node(step.subject)).exists()
                and not Path(str(step.arguments["aside"])).exists())

    def _kept(self, step: Step, keeper: Keeper, node: Node) -> Figures:
        kept = Path(str(step.arguments["aside"]))
        there = (kept / keeper.database(node).relative_to(node.data_directory)).exists()
        return {"kept_in": str(kept) if there else None}

    def _refuse_changed(self, context: Context, step: Step, keeper: Keeper, node: Node) -> None:
        if Path(str(step.arguments["aside"])).exists():
            return  # the old ones are being moved already
        before = context.results.get(("restore-export", node.name), {}).get("fingerprint")
        if keeper.fingerprint(node) != before:
            raise OperatorError(f"the data of {node.name} changed since they were exported",
                                "somebody has written to them",
                                "see who that is, then restore again", ExitCode.REFUSED)


class Lead(Repeatable):
    """The restored node is the primary of a new epoch, so that no older data can come back."""

    def check(self, context: Context, step: Step) -> Figures | None:
        found = replication(context, step.subject)
        if found is None or found.role is not ServerRole.PRIMARY or found.read_only:
            return None
        return {"epoch": found.epoch} if (found.epoch or 0) >= _epoch(step) else None

    def do(self, context: Context, step: Step) -> Figures:
        cluster, installation = context.cluster, context.installation
        present = state.current(cluster, cluster.node(step.subject))
        if present.forced is not None and present.epoch >= _epoch(step):
            operations.start_node(cluster, installation, step.subject, progress=context.say,
                                  seconds=step.seconds - 1.0)
            return {"epoch": present.epoch}
        done = operations.force_start(
            cluster, installation, step.subject, actor=operation.actor(),
            reason=f"restored from a backup: {step.arguments['reason']}".rstrip(": "),
            progress=context.say, seconds=step.seconds - 1.0)
        return {"epoch": done.epoch}


class Client(Repeatable):
    """An Indico instance starts with nothing remembered, and reaches the restored data."""

    def do(self, context: Context, step: Step) -> Figures:
        instance = instance_named(context.cluster, step.subject)
        deadline = time.monotonic() + step.seconds - 2.0
        operations.restart_instance(context.cluster, step.subject, progress=context.say,
                                    seconds=step.seconds - 2.0)
        while True:
            missing = _missing(instance.address)
            if missing is None:
                return {}
            if time.monotonic() > deadline:
                raise OperatorError(f"{step.subject}: {missing}", f"after {step.seconds:g} s",
                                    Commands.here(context.cluster).zodbrepl("status"),
                                    ExitCode.TIMED_OUT)
            time.sleep(POLL_SECONDS)


class See(Repeatable):
    """The node answers with what was restored, or with what was committed after it."""

    def do(self, context: Context, step: Step) -> Figures:
        cluster, node = context.cluster, context.cluster.node(step.subject)
        wanted = int(str(context.results[("restore-stage", step.subject)]["restored_to"]), 16)
        try:
            found = backend_of(cluster).ask(cluster, node,
                                            time.monotonic() + ANSWER_SECONDS).last_tid
        except ProbeError as error:
            raise OperatorError(f"node {node.name} does not answer", error.detail,
                                Commands.here(cluster).zodbrepl("status"),
                                ExitCode.TIMED_OUT) from error
        if found < wanted:
            raise OperatorError(f"node {node.name} has not what was restored",
                                f"its last transaction is {found:016x}, not {wanted:016x}",
                                exit_code=ExitCode.REFUSED)
        return {"last_tid": f"{found:016x}"}


def _missing(address: object) -> str | None:
    try:
        answer = probe_indico(address, time.monotonic() + ANSWER_SECONDS)  # type: ignore[arg-type]
    except ProbeError as error:
        return error.detail
    if not answer.connected:
        return "it has no storage"
    return "it is read-only" if answer.read_only else None


def _subject(context: Context, step: Step) -> tuple[Node, Keeper]:
    return context.cluster.node(step.subject), keeper_of(context.cluster, context.installation)


def _names(step: Step) -> list[str]:
    found = step.arguments["instances"]
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def _epoch(step: Step) -> int:
    return int(str(step.arguments["epoch"]))


def _free_name(folder: Path) -> Path:
    """A name for what an interrupted restore exported; nothing that was exported is removed."""
    number = 1
    while (found := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    return found


STAGE, END_CLIENTS, EXPORT, SWAP = Stage(), EndClients(), Export(), Swap()
LEAD, CLIENT, SEE = Lead(), Client(), See()
