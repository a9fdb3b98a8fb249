"""The steps of a seed that nothing else needs; see ``actions``."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..cluster.commands import Commands
from ..cluster.layout import data_fs
from ..errors import ExitCode, OperatorError
from ..node import datafs, run
from .actions import Context, Repeatable
from .moving import move
from .seed_facts import part
from .steps import Figures, Step
from .telling import Teller

WITH_DATA = ("blobs", "Data.fs.index")  # a copy has these too
BESIDE = ("Data.fs.tmp", "Data.fs.old", "lineage.json")


class Copy(Repeatable):
    """A copy of the source's data in a folder of its own; an interrupted one goes on."""

    def do(self, context: Context, step: Step) -> Figures:
        node = context.cluster.node(step.subject)
        source = context.cluster.node(str(step.arguments["source"]))
        run.prepare(context.cluster, node)
        target = part(node)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        if target.exists():  # complete, but of another time: what is the same of it is kept
            target.rename(target.with_name(f"{target.name}.part"))
        origin = data_fs(source).stat().st_ino
        _copy_index(data_fs(source), target)
        done = datafs.copy(context.installation, data_fs(source), target, Teller(context.say),
                           seconds=step.seconds)
        if data_fs(source).stat().st_ino != origin:  # packed meanwhile: it is another file's index
            _index(target).unlink(missing_ok=True)
        rate = (done.bytes - done.resumed) / done.seconds if done.seconds else 0.0
        return {"copied_bytes": done.bytes + done.blob_bytes, "resumed_bytes": done.resumed,
                "seconds": done.seconds, "bytes_per_second": round(rate), "copied_to": done.tid}


class Swap(Repeatable):
    """The copy is the node's data; what was there before is in a folder beside it."""

    def do(self, context: Context, step: Step) -> Figures:
        node = context.cluster.node(step.subject)
        data, new = node.data_directory, part(node)
        kept = Path(str(step.arguments["aside"]))
        try:
            if new.exists():  # it is moved last, the old one last of the old ones
                old = [name for name in WITH_DATA
                       if data_fs(node).exists() or (new.parent / name).exists()]
                move(data, kept, (*BESIDE, *old, new.name))
                move(new.parent, data, (*WITH_DATA, new.name))
            if new.parent.exists():
                shutil.rmtree(new.parent)
        except OSError as error:
            raise OperatorError(f"the copy can't be put in its place: {error.strerror}",
                                str(error.filename), exit_code=ExitCode.FAILED) from error
        if not data_fs(node).exists():
            raise OperatorError(f"the copy for {node.name} is gone", str(new),
                                Commands.here(context.cluster).zodbrepl("seed", node.name))
        return {"kept_in": str(kept) if kept.exists() else None}

    def is_untouched(self, context: Context, step: Step) -> bool:
        """The folder for the old data is the first thing that is made."""
        node = context.cluster.node(step.subject)
        return (data_fs(node).exists() and part(node).exists()
                and not Path(str(step.arguments["aside"])).exists())


def _index(data_file: Path) -> Path:
    return data_file.with_name(f"{data_file.name}.index")


def _copy_index(source: Path, target: Path) -> None:
    """The index as the source's server saved it last, so that the copy's need not read it all.

    Copied before the data, it says nothing of what the copy lacks.
    """
    _index(target).unlink(missing_ok=True)
    try:
        shutil.copyfile(_index(source), _index(target))
    except FileNotFoundError:
        return  # a server that was not ended yet may have none; then the copy's makes it


COPY, SWAP = Copy(), Swap()
