"""Results on disk: VAR/bench/TIME-SUITE/results.json, rewritten after each measurement."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from indico_zodbrepl.bench import machine, summary
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import locking
from indico_zodbrepl.probing import times

FORMAT = 2
FILE = "results.json"
ALL_FILE = "all.json"
"""In the folder of ``bench all``: its options."""
MOST = 1e15
"""Figures are smaller than this."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """A case, measured once on one storage.

    Attributes:
        storage: its name, as in ``--storages``.
        parameters: distinguish cases of the same test.
        round: from 1.
        metrics: numbers by the names of the suite's metrics; {} after an error.
        details: anything else that the test reported.
        cpu: CPU seconds of each supervised program of the site.
        began: seconds since 1970.
        took: seconds, including set-up and clean-up.
        error: why there are no metrics; '' if there are.
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
        began, ended: seconds since 1970; ``ended`` is None while it runs, or if it was killed.
        planned: number of planned measurements; an interrupted run has fewer.
        cluster, backend: name and backend of the cluster that the command was called for.
        settings: rounds, seconds, quick, options, and names and titles of the storages.
        environment: cpu, cores, memory, disk, system, python, load_before and, at the end,
            load_after.
        versions: of this project and of the measured packages.
        configs: text of each storage's cluster file.
        left_out: why a storage was not, or not completely, measured.
        measurements: in the order in which they were made.
        resumed: ``began`` and ``load_before`` of each continuation.
        problem: why the file cannot be read; only ``folder`` and ``suite`` are set then.
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
    resumed: Sequence[Mapping[str, Any]] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        """Return the folder relative to all results: TIME-SUITE or TIME-all/SUITE."""
        folder = self.folder
        return folder.name if "Z-" in folder.name else f"{folder.parent.name}/{folder.name}"

    @property
    def label(self) -> str:
        """Return the suite, or a more specific folder name such as "in-app-pinned"."""
        name = self.folder.name
        return name if name.startswith(f"{self.suite}-") else self.suite

    @property
    def is_complete(self) -> bool:
        """Return True if everything planned was measured."""
        return self.ended is not None and 0 < self.planned == len(self.measurements)

    @property
    def failed(self) -> Sequence[Measurement]:
        """Return the measurements that ended in an error."""
        return [each for each in self.measurements if each.error]


def begin(
    folder: Path, cluster: Cluster, suite: str, settings: Mapping[str, Any], disk: Path
) -> Run:
    """Write what is known before a run's first measurement.

    Args:
        folder: as returned by ``new_folder``, or a folder in it.
        disk: a folder on the measured disk.

    Raises:
        OperatorError: exit 1, it cannot be written.
    """
    run = Run(
        folder,
        suite,
        time.time(),
        None,
        0,
        cluster.name,
        str(cluster.backend),
        settings,
        machine.describe(disk),
        {"indico_zodbrepl": version()},
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    write(run)
    return run


def resume(run: Run) -> Run:
    """Write that an interrupted run is continued, and return it."""
    added = {"began": time.time(), "load_before": machine.load()}
    return write(dataclasses.replace(run, ended=None, resumed=(*run.resumed, added)))


def version() -> str:
    """Return the version of this project."""
    return importlib.metadata.version("indico_zodbrepl")


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Context that keeps other benchmarks out of a folder of results.

    Raises:
        OperatorError: exit 8, another one works in it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not locking.take(descriptor):
            raise OperatorError(
                f"another benchmark writes its results to {folder}",
                "two at once would measure each other",
                "wait for its end",
                ExitCode.REFUSED,
            )
        yield
    finally:
        os.close(descriptor)


def with_measurement(run: Run, made: Measurement) -> Run:
    """Return the run with one more measurement; it is not written yet."""
    return dataclasses.replace(
        run,
        measurements=(*run.measurements, made),
        versions={**run.versions, **made.details.get("versions", {})},
    )


def end(run: Run) -> Run:
    """Set the end time, write the run, and return it."""
    run = dataclasses.replace(
        run, ended=time.time(), environment={**run.environment, "load_after": machine.load()}
    )
    write(run)
    return run


def new_folder(cluster: Cluster, name: str) -> Path:
    """Create VAR/bench/TIME-NAME, for a suite or for all suites.

    Raises:
        OperatorError: exit 1, it cannot be created.
    """
    name = f"{times.stamp(time.time())}-{name}"
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


def note_all(folder: Path, *, quick: bool) -> None:
    """Note the options of ``bench all`` in its folder.  Raises OperatorError (exit 1)."""
    path = folder / ALL_FILE
    try:
        write_atomically(path, json.dumps({"format": FORMAT, "quick": quick}) + "\n")
    except OSError as error:
        raise _unwritable(path, error) from error


def quick_all(folder: Path) -> bool | None:
    """Return whether ``bench all`` was quick in its folder; None for any other folder.

    Raises:
        OperatorError: exit 2, its note cannot be read.
    """
    path = folder / ALL_FILE
    try:
        noted = json.loads(path.read_text("utf-8"))
        _require(noted["format"] == FORMAT and isinstance(noted["quick"], bool), ALL_FILE)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise OperatorError(
            f"{path} cannot be read", str(error), "start a new run", ExitCode.BAD_CONFIG
        ) from error
    return bool(noted["quick"])


def read_all(cluster: Cluster) -> list[Run]:
    """Return all stored runs, the newest first; an unreadable one has ``problem`` set."""
    kept = Layout(cluster).bench
    folders = {
        path.parent for pattern in (f"*/{FILE}", f"*/*/{FILE}") for path in kept.glob(pattern)
    }
    return [
        read(folder)
        for folder in sorted(folders, key=lambda each: each.relative_to(kept), reverse=True)
    ]


def read_folder(folder: Path) -> list[Run]:
    """Return the runs in a folder: of one suite, or of all its suites.

    Raises:
        OperatorError: exit 2, there are none.
    """
    if (folder / FILE).is_file():
        return [read(folder)]
    found = [read(path.parent) for path in sorted(folder.glob(f"*/{FILE}"))]
    if not found:
        raise OperatorError(
            f"there are no results in {folder}",
            f"neither {FILE} nor folders with one",
            "name a folder of var/bench, such as `ls var/bench` shows them",
            ExitCode.BAD_CONFIG,
        )
    return sorted(found, key=lambda run: run.began)


def read(folder: Path) -> Run:
    """Return a run; ``problem`` is set if the file is not in the expected format."""
    suite = folder.name.rpartition("Z-")[2].partition(".")[0]
    try:
        values = json.loads((folder / FILE).read_text("utf-8"))
        if values.pop("format") != FORMAT:
            return Run(folder, suite, problem="it is of another version of this program")
        values.pop("summary", None)
        if "problem" in values:
            raise ValueError("problem: not as this program writes it")
        made = tuple(Measurement(**each) for each in values.pop("measurements"))
        values["resumed"] = tuple(values.get("resumed", ()))
        run = Run(folder=folder, measurements=made, **values)
        check(run)
    except OSError as error:
        return Run(folder, suite, problem=error.strerror or str(error))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return Run(folder, suite, problem=f"it is damaged: {error}")
    return run


def as_json(run: Run) -> str:
    """Return the content of a run's file, with a freshly computed summary."""
    values = dataclasses.asdict(run)
    values["summary"] = [dataclasses.asdict(row) for row in summary.rows(run)]
    for name in ("folder", "problem"):
        del values[name]
    return json.dumps({"format": FORMAT, **values}, indent=1, sort_keys=True) + "\n"


def write(run: Run) -> Run:
    """Write a run, and return it.  Raises OperatorError (exit 1) if that fails."""
    path = run.folder / FILE
    try:
        write_atomically(path, as_json(run))
    except OSError as error:
        raise _unwritable(path, error) from error
    return run


def _unwritable(path: Path, error: OSError) -> OperatorError:
    return OperatorError(
        "results can't be kept",
        f"{path}: {error.strerror}",
        "make room there, or see whose it is; then try again",
    )


def is_number(value: object) -> TypeGuard[int | float]:
    """Return True for a finite number in the range of our figures."""
    return isinstance(value, int | float) and abs(value) < MOST


def check(run: Run) -> None:
    """Raise ValueError unless everything except details has the expected type."""
    for name in ("settings", "environment", "versions", "configs", "left_out"):
        _require(isinstance(getattr(run, name), Mapping), name)
    for name in ("suite", "cluster", "backend"):
        _require(isinstance(getattr(run, name), str), name)
    for name in ("versions", "configs", "left_out"):
        _texts(getattr(run, name), name)
    _texts(run.settings.get("storages", {}), "settings")
    _require(isinstance(run.settings.get("options", {}), Mapping), "settings")
    _require(isinstance(run.planned, int), "planned")
    for moment in (run.began, run.began if run.ended is None else run.ended):
        _require(is_number(moment) and 0 <= moment < 1e11, "began or ended")
    for each in run.resumed:
        _require(isinstance(each, Mapping) and is_number(each.get("began")), "resumed")
    for made in run.measurements:
        for text in (made.storage, made.test, made.error):
            _require(isinstance(text, str), "the storage, test or error of a measurement")
        for numbers in (made.metrics, made.cpu):
            _require(
                isinstance(numbers, Mapping) and all(map(is_number, numbers.values())),
                f"figures of {made.test} on {made.storage}",
            )
        _require(
            isinstance(made.parameters, Mapping)
            and all(isinstance(each, str) or is_number(each) for each in made.parameters.values()),
            f"parameters of {made.test} on {made.storage}",
        )
        _require(
            isinstance(made.round, int) and isinstance(made.details, Mapping),
            f"a round of {made.test} on {made.storage}",
        )


def _require(right: bool, what: str) -> None:
    if not right:
        raise ValueError(f"{what}: not as this program writes it")


def _texts(values: Any, what: str) -> None:
    _require(
        isinstance(values, Mapping) and all(isinstance(each, str) for each in values.values()), what
    )
