"""Results on disk: VAR/bench/TIME-SUITE/results.json, written anew after each measurement."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..cluster import Cluster
from ..cluster.files import write_atomically
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError
from . import checking, machine, summary

FORMAT = 2
FILE = "results.json"


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One case, measured once on one storage.

    Attributes:
        storage: its name, as in ``--storages``.
        parameters: what distinguishes cases of the same test.
        round: from 1.
        metrics: numbers, by the names of the suite's metrics; {} after an error.
        details: whatever else the test told.
        cpu: seconds of CPU that each supervised program of the site used meanwhile.
        began: seconds since 1970.
        took: seconds, with what preparing and ending it needed.
        error: why there are no metrics; '' when there are.
    """

    storage: str
    test: str
    parameters: Mapping[str, str | int | float]
    round: int
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    cpu: Mapping[str, float] = dataclasses.field(default_factory=dict)
    began: float = 0.0
    took: float = 0.0
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Run:
    """All measurements of one suite.

    Attributes:
        folder: VAR/bench/TIME-SUITE, or VAR/bench/TIME-all/SUITE.
        began, ended: seconds since 1970; ``ended`` is None while it runs, or when it was killed.
        planned: how many measurements were wanted; fewer were made if it was interrupted.
        cluster, backend: the name and the storage engine of the cluster it was called for.
        settings: rounds, seconds, quick, options, and names and titles of the storages.
        environment: cpu, cores, memory, disk, system, python, load_before and, at the end,
            load_after.
        versions: of this project and of the packages that were measured.
        configs: of each storage, the text of its cluster file.
        left_out: of each storage that was not measured, or not to the end, why.
        measurements: in the order in which they were made.
        problem: why the file can't be read; then everything but ``folder`` and ``suite`` is empty.
    """

    folder: Path
    suite: str
    began: float = 0.0
    ended: float | None = None
    planned: int = 0
    cluster: str = ""
    backend: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    configs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    measurements: Sequence[Measurement] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        """Its folder, within those of all results: TIME-SUITE or TIME-all/SUITE."""
        folder = self.folder
        return folder.name if "Z-" in folder.name else f"{folder.parent.name}/{folder.name}"

    @property
    def label(self) -> str:
        """The suite, or its folder's name where that says more, such as "in-app-pinned"."""
        name = self.folder.name
        return name if name.startswith(f"{self.suite}-") else self.suite

    @property
    def is_complete(self) -> bool:
        """Whether all that was wanted was measured; it is not known before anything is up."""
        return self.ended is not None and 0 < self.planned == len(self.measurements)

    @property
    def failed(self) -> Sequence[Measurement]:
        """Those that ended in an error."""
        return [each for each in self.measurements if each.error]


def begin(folder: Path, cluster: Cluster, suite: str, settings: Mapping[str, Any],
          disk: Path) -> Run:
    """Keep what is known before a run's first measurement.

    Args:
        folder: where ``new_folder`` says, or a folder in it.
        disk: a folder on the disk that is measured.

    Raises:
        OperatorError: exit 1, it can't be written.
    """
    run = Run(folder, suite, time.time(), None, 0, cluster.name, str(cluster.backend), settings,
              machine.describe(disk),
              {"indico_zodbrepl": importlib.metadata.version("indico_zodbrepl")})
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    write(run)
    return run


def with_measurement(run: Run, made: Measurement) -> Run:
    """The run with one more measurement, which is on disk when this returns."""
    run = dataclasses.replace(run, measurements=(*run.measurements, made),
                              versions={**run.versions, **made.details.get("versions", {})})
    write(run)
    return run


def end(run: Run) -> Run:
    """The run with its end, complete or not."""
    run = dataclasses.replace(run, ended=time.time(),
                              environment={**run.environment, "load_after": machine.load()})
    write(run)
    return run


def new_folder(cluster: Cluster, name: str) -> Path:
    """Make VAR/bench/TIME-NAME, for a suite or for all of them.

    Raises:
        OperatorError: exit 1, it can't be made.
    """
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{name}"
    for number in range(1, 100):
        folder = Layout(cluster).bench / (name if number == 1 else f"{name}.{number:02}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise _unwritable(folder, error) from error
        return folder
    raise OperatorError("results can't be kept", f"{name} and 99 more are there already")


def read_all(cluster: Cluster) -> list[Run]:
    """All runs that are kept, the newest first; one that can't be read says so."""
    kept = Layout(cluster).bench
    folders = {path.parent for pattern in (f"*/{FILE}", f"*/*/{FILE}")
               for path in kept.glob(pattern)}
    return [read(folder) for folder in
            sorted(folders, key=lambda each: each.relative_to(kept), reverse=True)]


def read_folder(folder: Path) -> list[Run]:
    """The runs in a folder: that of one suite, or those of all of its suites.

    Raises:
        OperatorError: exit 2, there are none.
    """
    if (folder / FILE).is_file():
        return [read(folder)]
    found = [read(path.parent) for path in sorted(folder.glob(f"*/{FILE}"))]
    if not found:
        raise OperatorError(f"there are no results in {folder}",
                            f"neither {FILE} nor folders with one",
                            "name a folder of var/bench, such as `ls var/bench` shows them",
                            ExitCode.BAD_CONFIG)
    return sorted(found, key=lambda run: run.began)


def read(folder: Path) -> Run:
    """One run; what is not as ``write`` writes it is a problem."""
    suite = folder.name.rpartition("Z-")[2].partition(".")[0]
    try:
        values = json.loads((folder / FILE).read_text("utf-8"))
        if values.pop("format") != FORMAT:
            return Run(folder, suite, problem="it is of another version of this program")
        values.pop("summary", None)
        if "problem" in values:
            raise ValueError("problem: not as this program writes it")
        made = tuple(Measurement(**each) for each in values.pop("measurements"))
        run = Run(folder=folder, measurements=made, **values)
        checking.check(run)
    except OSError as error:
        return Run(folder, suite, problem=error.strerror or str(error))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return Run(folder, suite, problem=f"it is damaged: {error}")
    return run


def as_json(run: Run) -> str:
    """The run as its file has it: with a summary, which is made anew whenever it is read."""
    values = dataclasses.asdict(run)
    values["summary"] = [dataclasses.asdict(row) for row in summary.rows(run)]
    for name in ("folder", "problem"):
        del values[name]
    return json.dumps({"format": FORMAT, **values}, indent=1, sort_keys=True) + "\n"


def write(run: Run) -> None:
    """Keep a run as it is now.  Raises OperatorError (exit 1) when that can't be done."""
    path = run.folder / FILE
    try:
        write_atomically(path, as_json(run))
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> OperatorError:
    return OperatorError("results can't be kept", f"{path}: {error.strerror}",
                         "make room there, or see whose it is; then try again")
