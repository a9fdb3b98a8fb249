"""Adopt an existing Indico: each stage is recorded, and an interrupted adoption continues."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from indico_zodbrepl.adopt import programs, record, survey
from indico_zodbrepl.adopt.findings import MIGRATED
from indico_zodbrepl.adopt.programs import Counts, Prepared
from indico_zodbrepl.adopt.record import Adoption
from indico_zodbrepl.adopt.survey import Survey
from indico_zodbrepl.cluster import Cluster, rendering
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.convert import Conversion, Progress, plan, source_of_file
from indico_zodbrepl.convert import carry_out as copy_data
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs, generated, lifecycle
from indico_zodbrepl.operations import journal, store

STORAGE = "<filestorage>\n  path {path}\n</filestorage>\n"
Say = Callable[[str], None]


def command(cluster: Cluster, file: Path) -> str:
    """Return the command that begins or continues an adoption."""
    return Commands.here(cluster).zodbrepl("adopt", "--from", str(file))


def conversion_of(cluster: Cluster, file: Path) -> Conversion:
    """Return the plan of the copy into the cluster.  Raises OperatorError as ``convert.plan``."""
    planned = plan(source_of_file(file), cluster, Commands.here(cluster))
    return dataclasses.replace(planned, command=command(cluster, file))


def carry_out(
    found: Survey,
    cluster: Cluster,
    installation: Installation,
    reason: str,
    *,
    say: Say,
    on_progress: Callable[[Progress], None],
) -> tuple[Adoption, Prepared]:
    """Adopt, or continue an interrupted adoption.

    Args:
        say: called with each step, one line.
        on_progress: called with the progress of the copy.

    Raises:
        OperatorError: as the stages; exit 130, interrupted.  Rerun the command to continue.
    """
    with (
        _continuable(cluster, found.file),
        journal.journaled(cluster, "adopt", f"from {found.file}", reason) as told,
    ):
        adoption = found.begun or _begin(cluster, found)
        if adoption.copied is None:
            copied = found.file
            if adoption.release in MIGRATED:
                copied = _migrated(adoption, cluster, installation, say)
                adoption = _note(cluster, adoption, migrated=time.time())
            conversion = dataclasses.replace(
                conversion_of(cluster, copied), command=command(cluster, found.file)
            )
            done = copy_data(conversion, installation, reason, say, on_progress)
            say(f"copied and compared: {done.held + done.copied:,} transactions")
            survey.refuse_changed(cluster, adoption, programs.digest_of(found.file))
            adoption = _note(cluster, adoption, copied=time.time())
        shutil.rmtree(Layout(cluster).adopting, ignore_errors=True)
        lifecycle.up(cluster, installation, say)
        with store.alone(cluster):
            say("preparing users, categories and events")
            prepared = programs.prepare(cluster, installation)
            refuse_lost(adoption.counts, prepared)
            survey.refuse_changed(cluster, adoption, programs.digest_of(found.file))
            adoption = _note(cluster, adoption, ended=time.time())
        told.figures.update(
            {
                "source": adoption.source,
                "sha256": adoption.digest,
                "release": adoption.release,
                "damaged": len(prepared.damaged),
                **dataclasses.asdict(adoption.counts),
            }
        )
    return adoption, prepared


def refuse_lost(original: Counts, prepared: Prepared) -> None:
    """Raise OperatorError (exit 1) if the new site has fewer objects than the original.

    Users and events that could not be read are named by the preparation, not counted.
    """
    problems = []
    for kind in ("users", "categories", "conferences"):
        damaged = sum(each.startswith(f"{kind} ") for each in prepared.damaged)
        before, after = getattr(original, kind), getattr(prepared, kind) + damaged
        if after < before:
            problems.append(f"{kind}: {before:,} in the original, {after:,} now")
    if not prepared.damaged and prepared.contributions < original.contributions:
        problems.append(
            f"contributions: {original.contributions:,} in the original, "
            f"{prepared.contributions:,} now"
        )
    if problems:
        raise OperatorError(
            "the adopted site has fewer objects than the original",
            "\n".join(problems),
            "do not let users in; stop the cluster and keep the old site, which is unchanged",
        )


def _begin(cluster: Cluster, found: Survey) -> Adoption:
    examined = found.examined
    adoption = Adoption(
        str(found.file), found.digest, str(examined.release), examined.counts, time.time()
    )
    generated.make_directories(cluster)
    record.write(cluster, adoption)
    return adoption


def _note(cluster: Cluster, adoption: Adoption, **done: float) -> Adoption:
    noted = dataclasses.replace(adoption, **done)  # type: ignore[arg-type]
    record.write(cluster, noted)
    return noted


def _migrated(adoption: Adoption, cluster: Cluster, installation: Installation, say: Say) -> Path:
    """Return a copy of the original that Indico's migration has finished.

    A migration cannot be continued, so after an interruption it starts again with a new copy.
    """
    folder = Layout(cluster).adopting
    migrated, copied = folder / "migrated.fs", folder / "copied.fs"
    if adoption.migrated is not None and migrated.is_file():
        return migrated
    with store.alone(cluster):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        say(f"copying {adoption.source} to {copied}")
        datafs.copy(installation, Path(adoption.source), copied)
        conf = _migration_conf(cluster, installation, folder, copied)
        done = programs.migrate(installation, conf, adoption.release, say)
        for question in done.questions:
            say(f"the migration asked, and was answered with yes: {question}")
        copied.rename(migrated)
    return migrated


def _migration_conf(cluster: Cluster, installation: Installation, folder: Path, file: Path) -> Path:
    """Write the indico.conf of the migration: the first instance's, on a Data.fs."""
    storage, conf = folder / "zodb.conf", folder / "indico.conf"
    storage.write_text(STORAGE.format(path=file))
    own = {"DBStorageURL": storage}
    for key in ("ConfigurationDir", "LogDir", "XMLCacheDir", "UploadedFilesTempDir"):
        own[key] = folder
    conf.touch(mode=0o600)
    conf.write_text(
        rendering.indico_conf(cluster, installation, cluster.indico[0])
        + "".join(f"{key} = {str(path)!r}\n" for key, path in own.items())
    )
    instance = cluster.indico[0]
    (folder / "logging.conf").write_text(rendering.logging_conf(cluster, instance))
    for each in rendering.indico_directories(cluster, instance):
        each.mkdir(parents=True, exist_ok=True)
    return conf


@contextlib.contextmanager
def _continuable(cluster: Cluster, file: Path) -> Iterator[None]:
    """Add the command that continues to an interruption and to errors without a hint."""
    again = f"{command(cluster, file)} (continues where it stopped)"
    try:
        yield
    except KeyboardInterrupt:
        raise OperatorError(
            "the adoption was interrupted",
            f"{file} is unchanged; finished stages are kept",
            again,
            ExitCode.INTERRUPTED,
        ) from None
    except OperatorError as error:
        error.hint = error.hint or again
        raise
