"""The suite "zodbshootout": its tests on each storage, by objects and workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from indico_zodbrepl.bench import processes27
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, Storage
from indico_zodbrepl.bench.suite import AnyStorage, Better, Case, Made, Metric, Option, Settings
from indico_zodbrepl.errors import ExitCode, OperatorError

TESTS = ("add", "update", "warm", "cold", "hot", "steamin")
PROGRAM = "shootout"
LIMIT_SECONDS = 600.0
"""For a measurement; and for making the objects of all workers."""


class Shootout(AnyStorage):
    """The suite ``zodbshootout``."""

    name = "zodbshootout"
    title = "zodbshootout 0.8.0: adds, updates, and reads with cold to steaming caches"
    metrics = (
        Metric("rate", "rate", "objects/s", Better.HIGHER),
        Metric("transaction_ms", "a transaction", "ms", Better.LOWER),
    )
    storages = (
        IN_MEMORY,
        "filestorage",
        "zeo",
        "zrs",
        "neo",
        "neo-1",
        "sqlite",
        "postgresql",
        "postgresql-async",
        "mariadb",
        "mariadb-async",
    )
    seconds = 1.0
    quick_seconds = 0.1
    options = (
        Option("tests", f"of {', '.join(TESTS)}", TESTS, ("add", "cold", "steamin")),
        Option("object-counts", "objects in a transaction", (100,), (20,)),
        Option(
            "concurrency",
            "how many work at once; 1-15 for all from 1 to 15",
            ("1", "4"),
            ("2",),
        ),
        Option(
            "most-objects", "leave out what has more objects in all transactions at once", 50000
        ),
    )

    def prepare(self, site: Site, settings: Settings) -> None:
        """Create the objects that the largest number of workers reads."""
        cases = self.cases(settings, site.storage)
        conf = site.folder / "shootout.conf"
        conf.write_text(configuration(site.zodb_conf.read_text("utf-8"), site.storage), "utf-8")
        if site.storage.name == IN_MEMORY:
            return  # each process makes its own
        most: dict[int, int] = {}
        for case in cases:
            objects, workers = _numbers(case)
            most[objects] = max(most.get(objects, 0), workers)
        for objects, workers in most.items():
            _run(site, ["populate", str(objects), str(workers)])

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        """Return each test by objects and workers, without impossible combinations.

        Raises:
            OperatorError: exit 2, an option names something unknown.
        """
        del storage
        options = settings.options
        unknown = [test for test in options["tests"] if test not in TESTS]
        if unknown:
            raise OperatorError(
                f"zodbshootout has no test {', '.join(unknown)} here",
                f"there are: {', '.join(TESTS)}",
                "name some of them with --tests",
                ExitCode.BAD_CONFIG,
            )
        return [
            Case(test, {"objects": objects, "concurrency": workers})
            for objects in options["object-counts"]
            for workers in concurrencies(options["concurrency"])
            if objects * workers <= options["most-objects"]
            for test in options["tests"]
        ]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        """Run a test with the case's number of workers."""
        objects, workers = _numbers(case)
        way = "threads" if site.storage.one_process else "processes"
        found = _run(site, [case.test, str(objects), str(workers), way, str(settings.seconds)])
        taken = float(found["transaction_seconds"])
        if not taken:
            raise OperatorError(f"{case} took no time that could be measured")
        return Made(
            {"rate": objects * workers / taken, "transaction_ms": 1000 * taken},
            {**found, "workers_are": way},
        )


def configuration(zodb_conf: str, storage: Storage) -> str:
    """Return a ``zodb.conf`` as zodbshootout reads it, with a ``<zodb>`` section.

    Without a section zodbshootout measures its own in-memory storage.
    """
    if storage.name == IN_MEMORY:
        return ""
    lines = zodb_conf.splitlines()
    imports = [line for line in lines if line.startswith("%")]
    rest = [f"  {line}" for line in lines if line and not line.startswith(("%", "#"))]
    return "\n".join([*imports, f"<zodb {storage.name}>", *rest, "</zodb>", ""])


def concurrencies(given: Iterable[str]) -> list[int]:
    """Return the numbers of words such as "5" and "1-15", without duplicates.

    Raises:
        OperatorError: exit 2, a word is neither a number from 1 nor a range.
    """
    found: list[int] = []
    for word in given:
        first, dash, last = word.partition("-")
        try:
            numbers = range(int(first), int(last if dash else first) + 1)
        except ValueError:
            numbers = range(0)
        if not numbers or numbers[0] < 1:
            raise OperatorError(
                f"{word!r} is no concurrency",
                "",
                "give numbers from 1, or ranges: --concurrency 1-15,40",
                ExitCode.BAD_CONFIG,
            )
        found += [number for number in numbers if number not in found]
    return found


def _numbers(case: Case) -> tuple[int, int]:
    return int(case.parameters["objects"]), int(case.parameters["concurrency"])


def _run(site: Site, arguments: Sequence[str]) -> dict[str, Any]:
    return processes27.run(
        site.installation,
        PROGRAM,
        [site.folder / "shootout.conf", *arguments],
        folder=site.folder,
        seconds=LIMIT_SECONDS,
    )


SUITE = Shootout()
