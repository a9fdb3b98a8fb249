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
from ..errors import OperatorError
from . import machine

FORMAT = 1
FILE = "results.json"


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One test, made once.

    Attributes:
        caches: cold, warm or hot.
        modify: what was modified; '' for tests that read.
        round: from 1.
        answer: what Indico returned, see ``docs/reference/benchmarks.md``; {} after an error.
        error: why there is no answer; '' when there is one.
    """

    test: str
    caches: str
    modify: str
    round: int
    answer: Mapping[str, Any]
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Run:
    """All measurements of one command.

    Attributes:
        folder: VAR/bench/TIME-SUITE.
        suite: in-app.
        began, ended: seconds since 1970; ``ended`` is None while it runs, or when it was killed.
        planned: how many measurements were wanted; fewer were made if it was interrupted.
        cluster, backend: its name and its storage engine.
        instance: of Indico.
        settings: tests, seconds, repetitions, modify, rounds, caches.
        environment: cpu, cores, memory, system, python, load_before and, at the end, load_after.
        versions: of this project, and of the packages inside Indico once one test was made.
        config: the text of the cluster file.
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
    instance: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    config: str = ""
    measurements: Sequence[Measurement] = ()
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether all that was wanted was measured."""
        return self.ended is not None and len(self.measurements) == self.planned

    @property
    def failed(self) -> Sequence[Measurement]:
        """Those that ended in an error."""
        return [each for each in self.measurements if each.error]


def begin(cluster: Cluster, suite: str, instance: str, planned: int,
          settings: Mapping[str, Any]) -> Run:
    """Make the folder of a new run and keep what is known before it.

    Raises:
        OperatorError: exit 1, it can't be written.
    """
    began = time.time()
    run = Run(_new_folder(cluster, suite, began), suite, began, None, planned, cluster.name,
              str(cluster.backend), instance, settings, machine.describe(),
              {"indico_zodbrepl": importlib.metadata.version("indico_zodbrepl")},
              cluster.source.read_text("utf-8"))
    _write(run)
    return run


def with_measurement(run: Run, made: Measurement) -> Run:
    """The run with one more measurement, which is on disk when this returns."""
    run = dataclasses.replace(run, measurements=(*run.measurements, made),
                              versions={**run.versions, **made.answer.get("versions", {})})
    _write(run)
    return run


def end(run: Run) -> Run:
    """The run with its end, complete or not."""
    run = dataclasses.replace(run, ended=time.time(),
                              environment={**run.environment, "load_after": machine.load()})
    _write(run)
    return run


def read_all(cluster: Cluster) -> list[Run]:
    """All runs that are kept, the newest first; one that can't be read says so."""
    found = [read(path.parent) for path in Layout(cluster).bench.glob(f"*/{FILE}")]
    return sorted(found, key=lambda run: run.folder.name, reverse=True)


def read(folder: Path) -> Run:
    """One run."""
    suite = folder.name.partition("-")[2].partition(".")[0]
    try:
        values = json.loads((folder / FILE).read_text("utf-8"))
        if values.pop("format") != FORMAT:
            return Run(folder, suite, problem="it is of another version of this program")
        made = tuple(Measurement(**each) for each in values.pop("measurements"))
        return Run(folder=folder, measurements=made, **values)
    except OSError as error:
        return Run(folder, suite, problem=error.strerror or str(error))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return Run(folder, suite, problem=f"it is damaged: {error}")


def as_json(run: Run) -> str:
    """The run as its file has it."""
    values = dataclasses.asdict(run)
    for name in ("folder", "problem"):
        del values[name]
    return json.dumps({"format": FORMAT, **values}, indent=1, sort_keys=True) + "\n"


def _new_folder(cluster: Cluster, suite: str, began: float) -> Path:
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(began))}-{suite}"
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


def _write(run: Run) -> None:
    path = run.folder / FILE
    try:
        write_atomically(path, as_json(run))
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> OperatorError:
    return OperatorError("results can't be kept", f"{path}: {error.strerror}",
                         "make room there, or see whose it is; then try again")
