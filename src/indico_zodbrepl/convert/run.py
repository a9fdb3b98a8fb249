"""Run a conversion with the data plane's program, which copies and verifies."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.convert.planning import Conversion, no_files_kept
from indico_zodbrepl.convert.sources import is_filled_directly, writable_node
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import generated, lifecycle, py27, state
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.py27 import Program, ProgramError
from indico_zodbrepl.operations import journal, store

MODULE = "indico_zodbrepl.dataplane.convert"
SILENCE_SECONDS = 900.0  # one huge transaction may take minutes; a hung storage never answers

# Exit status of the program: notice and exit code.
FAILURES: Mapping[int, tuple[str, ExitCode]] = {
    3: ("the data cannot be read", ExitCode.FAILED),
    4: ("the data cannot be read", ExitCode.FAILED),
    5: ("a server has the data open", ExitCode.REFUSED),
    6: ("the source holds data that cannot be converted", ExitCode.REFUSED),
    7: ("the copy differs from the source", ExitCode.FAILED),
    9: ("the target's disk is full", ExitCode.REFUSED),
}
NOT_KEPT = 6
OTHER_DATA = 8


def carry_out(
    conversion: Conversion,
    installation: Installation,
    reason: str,
    step: Callable[[str], None],
    on_progress: Callable[[Progress], None],
) -> Done:
    """Convert, record it in the target's journal, and stop what was started for it.

    Args:
        reason: for the journal.
        step: called with one line for each step.
        on_progress: called about twice a second.

    Raises:
        OperatorError: as ``program.run``, ``lifecycle.up`` and ``lifecycle.down``; exit 130,
            interrupted.  Rerun the command to continue.
    """
    source, target = conversion.source, conversion.target
    installation.check()
    generated.make_directories(target)
    with (
        store.alone(target),
        journal.journaled(target, "convert", f"from {source.label}", reason) as told,
    ):
        with contextlib.ExitStack() as started:
            if source.cluster is not None and source.served:
                started.enter_context(_storage_up(source.cluster, installation, step))
            if is_filled_directly(target):
                host_of(target, installation).prepare(writable_node(target).name)
            else:
                started.enter_context(_storage_up(target, installation, step))
            done = _convert(conversion, installation, on_progress)
        told.figures.update(
            {
                "source": str(source.opened),
                "held": done.held,
                "copied": done.copied,
                "records": done.records,
                "bytes": done.bytes,
                "files": done.blobs,
                "file_bytes": done.blob_bytes,
                "last": done.last,
                "seconds": dict(done.seconds),
                "not_kept": dict(done.lost),
            }
        )
    return done


def _convert(
    conversion: Conversion, installation: Installation, on_progress: Callable[[Progress], None]
) -> Done:
    target = conversion.target
    before = state.read_converting(target)
    begun = state.begin(target, str(_named(conversion)), conversion.command)
    again = f"{conversion.command} (continues where it stopped)"
    try:
        done = run(installation, conversion.source.opened, conversion.opened, on_progress)
    except KeyboardInterrupt:
        raise OperatorError(
            "the conversion was interrupted",
            "copied data are kept; the source is unchanged",
            again,
            ExitCode.INTERRUPTED,
        ) from None
    except OtherDataError:
        state.restore(target, before)  # nothing was written
        raise
    except OperatorError as error:
        if (
            isinstance(error, ProgramError)
            and error.status == NOT_KEPT
            and not SHAPES[target.backend].keeps_blobs
        ):
            state.restore(target, before)  # nothing was written
            raise no_files_kept(conversion.source, target) from error
        if not error.hint and error.exit_code is not ExitCode.REFUSED:
            error.hint = again
        raise
    state.end(target, begun)
    return done


@contextlib.contextmanager
def _storage_up(
    cluster: Cluster, installation: Installation, step: Callable[[str], None]
) -> Iterator[None]:
    """Run a cluster's storage without Indico, and stop everything afterwards."""

    def tell(what: str) -> None:
        step(f"{cluster.name}: {what}")

    try:
        lifecycle.up_storage(cluster, installation, tell)
        yield
    finally:
        lifecycle.down(cluster, installation, tell)


def _named(conversion: Conversion) -> Path:
    source = conversion.source
    return source.opened if source.cluster is None else source.cluster.source


class OtherDataError(OperatorError):
    """The target holds data that are not the start of the source; it is unchanged."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            "the target holds other data",
            detail,
            "name a target without data, or remove its data if they are not needed",
            ExitCode.REFUSED,
        )


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a stage.

    Attributes:
        stage: survey (find current revisions), compare (the target's data), copy, verify.
        transactions, bytes: of the source, in this stage.
        fraction: of the stage, 0 to 1.
        seconds: since the stage began.
    """

    stage: str
    transactions: int
    bytes: int
    fraction: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Done:
    """The result of a verified conversion.

    Attributes:
        held: transactions that the target had before.
        copied: transactions added; ``records`` and ``bytes`` are their content, ``blobs`` and
            ``blob_bytes`` their uploaded files.
        last: tid of the last one; None for an empty database.
        unfinished: bytes of a transaction at the end of a source file that a kill left.
        seconds: of each stage.
        lost: data that the target does not keep: numbers of ``transactions`` that hold only
            history, of ``records``, of transactions whose ``status`` is packed, of
            ``undo_pointers``.
    """

    held: int
    copied: int
    records: int
    bytes: int
    last: str | None
    unfinished: int
    seconds: Mapping[str, float]
    lost: Mapping[str, int]
    blobs: int
    blob_bytes: int


def run(
    installation: Installation, source: Path, target: Path, on_progress: Callable[[Progress], None]
) -> Done:
    """Copy and verify; return the result.

    Args:
        source, target: each a Data.fs or a ZODB configuration.
        on_progress: called about twice a second, in this thread.

    Raises:
        OperatorError: REFUSED if the target holds other data, a file is open elsewhere, the source
            lacks the file of a blob, the target keeps no blobs, or the disk is full; TIMED_OUT
            after 15 minutes without output.
        KeyboardInterrupt: after the program has exited.
    """
    try:
        return py27.run(
            installation,
            Program(MODULE, "the conversion failed"),
            source,
            target,
            answer=Done,
            progress=Progress,
            on_progress=on_progress,
            silence=SILENCE_SECONDS,
        )
    except ProgramError as error:
        if error.status == OTHER_DATA:
            raise OtherDataError(error.detail) from error
        if error.status in FAILURES:
            error.notice, error.exit_code = FAILURES[error.status]
        raise
