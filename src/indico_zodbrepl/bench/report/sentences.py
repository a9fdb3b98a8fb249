"""What a run as a whole does and does not show, as plain sentences.  Pure.

Each rule says only what its data shows; where there is no data it says nothing.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping

from ..results import Run
from ..storages import STORAGES
from . import details, wording
from .subject import Subject


class Tone(enum.StrEnum):
    """How a page marks a sentence."""

    PLAIN = "plain"
    CARE = "care"
    ALARM = "alarm"


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One claim.

    Attributes:
        about: the case that it is about; '' for all of a suite.
    """

    text: str
    about: str = ""
    tone: Tone = Tone.PLAIN


QUICK = "A quick run: it shows that everything works, not how fast it is."
ONE_ROUND = "One round: nothing is known about the spread."
ONE_HOST = "Everything ran on one host, so network latency is not in these figures."


def of_run(subject: Subject) -> Iterator[Sentence]:
    """What is worth knowing of a run before its figures are read."""
    run = subject.run
    if run.settings.get("quick"):
        yield Sentence(QUICK, tone=Tone.ALARM)
    yield from completeness(run)
    if failed := len(run.failed):
        yield Sentence(f"{failed} of {len(run.measurements)} measurements failed; they are listed "
                       "below, and in none of the figures.", tone=Tone.CARE)
    yield from of_rounds(subject)
    yield from of_load(run.environment)
    yield from of_cores(subject)
    if any(name not in STORAGES or STORAGES[name].has_servers for name in subject.storages):
        yield Sentence(ONE_HOST)


def completeness(run: Run) -> Iterator[Sentence]:
    """Whether all that was wanted was measured."""
    made, wanted = len(run.measurements), run.planned
    if run.ended is None:
        yield Sentence(f"This run had not ended: it was under way, or killed, when {made} of "
                       f"{wanted} measurements were made.", tone=Tone.ALARM)
    elif made < wanted:
        yield Sentence(f"Interrupted: {made} of {wanted} measurements were made; the figures rest "
                       "on these.", tone=Tone.ALARM)
    elif not made:
        yield Sentence("Nothing was measured.", tone=Tone.ALARM)


def of_rounds(subject: Subject) -> Iterator[Sentence]:
    """What the number of rounds allows to be said."""
    having = [row.rounds for row in subject.rows if row.rounds]
    if not having:
        return
    if max(having) == 1:
        yield Sentence(ONE_ROUND, tone=Tone.CARE)
        return
    if 1 in having:
        yield Sentence(f"{having.count(1)} of {len(having)} cases have one round only: nothing is "
                       "known about their spread.", tone=Tone.CARE)
    count = max(having)
    if count <= 5 and subject.control and len(subject.storages) > 1:
        yield Sentence(
            f"{count} rounds: two storages that are equally fast still lie on the same side of "
            f"each other in all of them in 1 of {2 ** (count - 1)} comparisons, by chance.")


def of_load(environment: Mapping[str, object]) -> Iterator[Sentence]:
    """Whether the machine had other work when the run began."""
    loads = details.numbers(environment.get("load_before"))
    cores = details.number(environment.get("cores"))
    if not loads or not cores:
        return
    said = f"load {loads[0]:g} on {cores:.0f} core{'s' if cores > 1 else ''}"
    if loads[0] > cores / 2:
        yield Sentence(f"The machine was busy ({said}) before the run: ratios of interleaved "
                       "rounds stay meaningful, absolute figures don't.", tone=Tone.CARE)
    else:
        yield Sentence(f"The machine was not busy before the run ({said}).")


def of_cores(subject: Subject) -> Iterator[Sentence]:
    """Storages whose programs that worked are more than there are cores."""
    cores = details.number(subject.run.environment.get("cores"))
    if not cores:
        return
    most: dict[str, int] = {}
    for made in subject.run.measurements:
        working = sum(seconds > 0 for seconds in made.cpu.values())
        most[made.storage] = max(most.get(made.storage, 0), working)
    crowded = [f"{subject.title_of(name)} ({count})" for name, count in most.items()
               if count > cores]
    if crowded:
        yield Sentence(
            f"More programs used CPU time than there are cores ({cores:.0f}), beside the one that "
            f"measured, with {wording.listed(crowded)}: what they took from one another is in the "
            "figures.", tone=Tone.CARE)
