"""A conversion, from its first step to its last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ..backends import backend_of
from ..cluster import Cluster
from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError
from ..failover import journal, store
from ..node import converting, generated, lifecycle, run
from . import program
from .planning import Conversion
from .program import Done, Progress
from .sides import writable_node


def carry_out(conversion: Conversion, installation: Installation, reason: str,
              step: Callable[[str], None], on_progress: Callable[[Progress], None]) -> Done:
    """Convert, and journal it in the target.  What was started for it is ended, whatever happens.

    Args:
        reason: for the journal.
        step: told of each step, one line.
        on_progress: told about twice a second how far it is.

    Raises:
        OperatorError: as ``program.run``, ``lifecycle.up`` and ``lifecycle.down``; exit 130,
            interrupted.  The command, given again, goes on.
    """
    source, target = conversion.source, conversion.target
    installation.check()
    generated.make_directories(target)
    with store.alone(target), journal.journaled(
            target, "convert", f"from {source.label}", reason) as told:
        with contextlib.ExitStack() as started:
            if source.cluster is not None and source.served:
                started.enter_context(_storage_up(source.cluster, installation, step))
            if backend_of(target).data_files:
                run.prepare(target, writable_node(target))
            else:
                started.enter_context(_storage_up(target, installation, step))
            done = _convert(conversion, installation, on_progress)
        told.figures.update({
            "source": str(source.opened), "held": done.held, "copied": done.copied,
            "records": done.records, "bytes": done.bytes, "last": done.last,
            "seconds": dict(done.seconds), "not_kept": dict(done.lost)})
    return done


def _convert(conversion: Conversion, installation: Installation,
             on_progress: Callable[[Progress], None]) -> Done:
    target = conversion.target
    before = converting.read(target)
    begun = converting.begin(target, str(_named(conversion)), conversion.command)
    again = f"{conversion.command} (it goes on where it was)"
    try:
        done = program.run(installation, conversion.source.opened, conversion.opened, on_progress)
    except KeyboardInterrupt:
        raise OperatorError("the conversion was interrupted",
                            "what was copied stays; the source was not changed", again,
                            ExitCode.INTERRUPTED) from None
    except program.OtherDataError:
        converting.restore(target, before)  # nothing was written
        raise
    except OperatorError as error:
        if not error.hint and error.exit_code is not ExitCode.REFUSED:
            error.hint = again
        raise
    converting.end(target, begun)
    return done


@contextlib.contextmanager
def _storage_up(cluster: Cluster, installation: Installation,
                step: Callable[[str], None]) -> Iterator[None]:
    """A cluster's storage without its Indico, and nothing of the cluster afterwards."""
    def tell(what: str) -> None:
        step(f"{cluster.name}: {what}")

    try:
        lifecycle.up_storage(cluster, installation, tell)
        yield
    finally:
        lifecycle.down(cluster, tell)


def _named(conversion: Conversion) -> Path:
    source = conversion.source
    return source.opened if source.cluster is None else source.cluster.source
