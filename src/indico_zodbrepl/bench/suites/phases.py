"""The suite "phases": seconds to create a graph of objects, commit it and query it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, Storage
from indico_zodbrepl.bench.suite import AnyStorage, Better, Case, Made, Metric, Option, Settings

CREATE = "create"
QUERIES = (
    "group-members",
    "user-groups",
    "conference-contributions",
    "author-conferences",
    "sequence-walk",
    "sequence-pages",
    "sequence-picks",
)
QUICK_QUERIES = ("group-members", "conference-contributions", "sequence-picks")
PROGRAM = "phases"
PATIENCE = 600.0
"""Seconds, of scale 1."""
NUMBERS = ("create_seconds", "commit_seconds", "objects", "records")


class Phases(AnyStorage):
    """The suite ``phases``."""

    name = "phases"
    title = "making a graph of objects, committing it, and walking it with empty caches"
    metrics = (
        Metric("seconds", "time", "s", Better.LOWER),
        Metric("create_seconds", "creation", "s", Better.LOWER),
        Metric("commit_seconds", "commit", "s", Better.LOWER),
        Metric("objects_per_second", "objects a second", "objects/s", Better.HIGHER),
        Metric("objects", "objects", "objects", Better.NEITHER),
        Metric("records", "records", "records", Better.NEITHER),
    )
    storages = (IN_MEMORY, "filestorage", "zeo", "zrs", "neo", "sqlite", "postgresql", "mariadb")
    seconds = 1.0
    quick_seconds = 1.0
    options = (
        Option("scale", "how much data, as a multiple of 6,900 objects", 1.0, 0.05, least=0.0),
    )

    def prepare(self, site: Site, settings: Settings) -> None:
        """Do nothing: the first case creates the data."""

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        """Return the creation of the data first, then the queries."""
        del storage
        return [Case(name) for name in (CREATE, *(QUICK_QUERIES if settings.quick else QUERIES))]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        """Create the data or run a query in its own process; a wrong result is an error."""
        scale = float(settings.options["scale"])
        in_memory = site.storage.name == IN_MEMORY
        return made_of(
            site.run27(
                PROGRAM,
                [
                    site.zodb_conf,
                    case.test,
                    "--scale",
                    str(scale),
                    *(["--create"] if in_memory and case.test != CREATE else []),
                ],
                seconds=PATIENCE * max(1.0, scale),
            )
        )


def made_of(answer: Mapping[str, Any]) -> Made:
    """Return the metrics in the program's output."""
    seconds = answer.get("seconds")
    if seconds is None:
        seconds = answer["create_seconds"] + answer["commit_seconds"]
    metrics: dict[str, float] = {"seconds": seconds}
    metrics |= {name: answer[name] for name in NUMBERS if name in answer}
    if seconds:
        metrics["objects_per_second"] = answer["objects"] / seconds
    return Made(metrics, {name: value for name, value in answer.items() if name not in metrics})


SUITE = Phases()
