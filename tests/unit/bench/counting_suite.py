"""A suite that measures nothing but itself, and the commands of bench with such suites alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from click.testing import CliRunner, Result

from indico_zodbrepl.bench import suite
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, Storage
from indico_zodbrepl.bench.suite import Better, Case, Made, Metric, Option, Settings, Suite
from indico_zodbrepl.cli import main
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation

Run = Callable[..., Result]


class Counting:
    """A suite that gives the numbers it is given, or raises what it is given, in turn."""

    title = "counting"
    metrics: Sequence[Metric] = (Metric("rate", "rate", "numbers/s", Better.HIGHER),)
    storages: Sequence[str] = (IN_MEMORY,)
    quick_storages: Sequence[str] = (IN_MEMORY,)
    control = "zeo"
    seconds = 1.0
    quick_seconds = 0.1
    indico = 0
    renews_indico = False
    options: Sequence[Option] = (Option("tests", "which", ("one", "two"), quick=("one",)),)

    def __init__(self, name: str, *outcomes: float | BaseException) -> None:
        self.name = name
        self.outcomes = list(outcomes)

    def unfit(self, storage: Storage) -> str:
        return "" if storage.name == IN_MEMORY else "only what is in memory is counted"

    def prepare(self, site: Site, settings: Settings) -> None:
        """Nothing."""

    def cases(self, settings: Settings, _storage: Storage) -> Sequence[Case]:
        if not self.outcomes:
            raise ValueError("a bug")
        return [Case(test) for test in settings.options["tests"]]

    def measure(self, _case: Case, _site: Site, _settings: Settings) -> Made:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return Made({"rate": outcome})


def with_suites(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs ``bench`` with the suites that it is given."""

    def call(made: Sequence[Counting], *arguments: str) -> Result:
        by_name: dict[str, Suite] = {each.name: each for each in made}
        monkeypatch.setenv("ZODBREPL_HOME", str(cluster.source.parent))
        monkeypatch.setattr(Installation, "check", lambda _: None)
        monkeypatch.setattr(suite, "known", lambda: list(by_name))
        monkeypatch.setattr(suite, "suite", by_name.__getitem__)
        return CliRunner().invoke(main, ["-c", str(cluster.source), "bench", *arguments])

    return call
