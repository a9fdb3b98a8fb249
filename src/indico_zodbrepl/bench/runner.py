"""Execute a run: every case on every storage in every round, with rotating order."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.bench import machine, results, resuming
from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import Storage
from indico_zodbrepl.bench.suite import Case, RunEndedError, Settings, Suite
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import OperatorError


@dataclasses.dataclass(frozen=True)
class Step:
    """A measurement to be made; rounds count from 1."""

    round: int
    case: Case
    storage: str

    def __str__(self) -> str:
        return f"{self.storage}: {self.case}, round {self.round}"


@dataclasses.dataclass(frozen=True)
class Told:
    """The report after each measurement."""

    step: Step
    measurement: Measurement
    done: int
    planned: int


def plan(cases: Mapping[str, Sequence[Case]], rounds: int) -> Iterator[Step]:
    """Yield all steps in order.

    Storages alternate at each case, and each round begins with another one, so that other load on
    the machine affects all of them alike.  The same applies to cases that are compared.

    Args:
        cases: of each storage.
    """
    names = list(cases)
    all_cases: list[Case] = []
    for found in cases.values():
        all_cases += [case for case in found if case not in all_cases]
    for number in range(rounds):
        first = number % len(names) if names else 0
        for case in _of_round(all_cases, number):
            for name in names[first:] + names[:first]:
                if case in cases[name]:
                    yield Step(number + 1, case, name)


def _of_round(cases: Sequence[Case], number: int) -> Iterator[Case]:
    for _, neighbours in itertools.groupby(cases, _apart_from_turns):
        alike = list(neighbours)
        first = number % len(alike)
        yield from alike[first:] + alike[:first]


def _apart_from_turns(case: Case) -> tuple[str, dict[str, str | int | float]]:
    return case.test, {
        name: value for name, value in case.parameters.items() if name != case.in_turn
    }


def make(
    suite: Suite,
    storages: Sequence[Storage],
    settings: Settings,
    sites: Sites,
    *,
    cluster: Cluster,
    folder: Path,
    told: Callable[[Told], None],
    begun: Callable[[Step, int, int], None] = lambda *_: None,
    earlier: Run | None = None,
) -> Run:
    """Start the storages and execute a run; write each measurement before the next begins.

    A storage that the suite cannot measure, or that does not start, is left out and named.

    Args:
        cluster: the cluster that the command was called for.
        folder: for the results.
        earlier: an interrupted run of the same settings, whose measurements are not repeated.
        told: called after each measurement.
        begun: called before each one, with the number done and the number planned.

    Raises:
        OperatorError: exit 1, results cannot be written, or a suite's RunEndedError.  In these
            cases and after KeyboardInterrupt earlier measurements are kept.  Exit 8, the earlier
            run was made on another machine, disk or version.
    """
    if earlier is None:
        run = results.begin(folder, cluster, suite.name, as_values(settings, storages), sites.place)
    else:
        resuming.require_alike(earlier, machine.describe(sites.place), results.version())
        run = results.resume(earlier)
    try:
        up: dict[str, Site] = {}
        for storage in storages:
            try:
                up[storage.name] = _prepared(suite, storage, settings, sites)
            except OperatorError as error:
                run = _leaving_out(run, storage.name, error)
        run = dataclasses.replace(
            run,
            configs={
                **run.configs,
                **{
                    name: site.cluster.source.read_text("utf-8")
                    for name, site in up.items()
                    if site.cluster
                },
            },
        )
        cases = {name: suite.cases(settings, site.storage) for name, site in up.items()}
        steps = missing(plan(cases, settings.rounds), run)
        planned = len(run.measurements) + len(steps)
        run = dataclasses.replace(run, planned=planned)
        results.write(run)
        rounds: dict[str, int] = {}
        for done, step in enumerate(steps, start=len(run.measurements) + 1):
            begun(step, done - 1, planned)
            is_new = step.round > rounds.setdefault(step.storage, step.round)
            rounds[step.storage] = step.round
            site = up[step.storage]
            made = _measured(suite, step, site, settings, renew=is_new and suite.renews_indico)
            # Two steps: what an interruption finds written is then also in ``run``.
            run = results.with_measurement(run, made)
            results.write(run)
            told(Told(step, made, done, planned))
    finally:
        run = results.end(run)
    return run


def missing(steps: Iterable[Step], run: Run) -> list[Step]:
    """Return the steps that a run has no measurement of; a failed one is a measurement too."""
    made = {
        (each.round, each.test, frozenset(each.parameters.items()), each.storage)
        for each in run.measurements
    }
    return [
        step
        for step in steps
        if (step.round, step.case.test, frozenset(step.case.parameters.items()), step.storage)
        not in made
    ]


def as_values(settings: Settings, storages: Sequence[Storage]) -> dict[str, Any]:
    """Return the request of a run, for JSON."""
    return {
        "rounds": settings.rounds,
        "seconds": settings.seconds,
        "quick": settings.quick,
        "options": dict(settings.options),
        "storages": {each.name: each.title for each in storages},
    }


def _prepared(suite: Suite, storage: Storage, settings: Settings, sites: Sites) -> Site:
    if why := suite.unfit(storage):
        raise OperatorError(why)
    with _full_disks(sites.place):
        site = sites.site(storage, settings.options.get("indico", suite.indico))
        suite.prepare(site, settings)
    return site


@contextlib.contextmanager
def _full_disks(place: Path) -> Iterator[None]:
    """Context that turns a full disk into an OperatorError."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OperatorError(
            "the disk is full",
            f"{error.filename or place}: {error.strerror}",
            "make room, or name another folder with --data-directory",
        ) from error


def _leaving_out(run: Run, name: str, error: OperatorError) -> Run:
    why = " ".join(filter(None, (error.notice, error.detail, error.hint)))
    return dataclasses.replace(run, left_out={**run.left_out, name: why})


def _measured(
    suite: Suite, step: Step, site: Site, settings: Settings, *, renew: bool
) -> Measurement:
    wall, began = time.time(), time.monotonic()
    made = Measurement(step.storage, step.case.test, step.case.parameters, step.round, began=wall)
    try:
        with _full_disks(site.folder):
            if renew:
                site.renew_indico()
            pids = site.pids()
            before = machine.seconds(pids)
            found = suite.measure(step.case, site, settings)
            used = (
                machine.between(before, machine.seconds(pids)) if found.cpu is None else found.cpu
            )
    except RunEndedError:
        raise
    except OperatorError as error:
        return dataclasses.replace(
            made, took=time.monotonic() - began, error=error.detail or error.notice
        )
    return dataclasses.replace(
        made, metrics=found.metrics, details=found.details, cpu=used, took=time.monotonic() - began
    )
