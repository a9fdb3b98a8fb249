"""Judge what authors wrote through Indico's pages.  No I/O.

An event has a title that nobody else gives.  Each author has one event whose title only he changes,
one change after the other, and attaches files of his own.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from histories import Anomaly, Kind
from traffic import Outcome

CREATED, CHANGED, ATTACHED = "created", "changed", "attached"


@dataclasses.dataclass(frozen=True)
class WebWrite:
    """A request that writes.

    Attributes:
        number: unique in the history.
        what: CREATED an event, CHANGED the title of one, or ATTACHED a file.
        place: the event whose title is changed, or the path of the file, if it is known.
        value: the title, or the file's digest.
        outcome: ACKNOWLEDGED if Indico said that it is saved; otherwise UNKNOWN.
        began, ended: seconds of CLOCK_BOOTTIME.
        status: of the answer; 0 without one.
    """

    number: int
    author: str
    what: str
    place: str
    value: str
    outcome: Outcome
    began: float
    ended: float
    status: int

    def __str__(self) -> str:
        return (
            f"{self.number:>8} {self.author:<12} {self.began:.3f} to {self.ended:.3f} "
            f"{self.outcome:<12} {self.what} {self.place} {self.value} ({self.status})"
        )


def excused(history: Iterable[WebWrite], exports: bytes) -> list[WebWrite]:
    """Return a history in which what a recovery export holds counts as of unknown outcome.

    Args:
        exports: the content of all exports.
    """
    return [
        dataclasses.replace(each, outcome=Outcome.UNKNOWN)
        if each.outcome is Outcome.ACKNOWLEDGED and _mark(each).encode() in exports
        else each
        for each in history
    ]


def _mark(write: WebWrite) -> str:
    """Return a text that only the objects which a request has written contain."""
    return file_name(write.number) if write.what == ATTACHED else write.value


def file_name(number: int) -> str:
    """Return the name of the file that a request attaches."""
    return f"{number}.bin"


def judge(
    history: Sequence[WebWrite], titles: Mapping[str, str], files: Mapping[str, str]
) -> Iterator[Anomaly]:
    """Find acknowledged requests whose effect is missing, and effects that are there twice.

    Args:
        titles: of all events at the end, by their ids.
        files: digests by path, of those that can be downloaded at the end.
    """
    count = Counter(titles.values())
    for each in history:
        if each.what == CREATED:
            yield from _of_event(each, count[each.value])
        elif each.what == ATTACHED and each.outcome is Outcome.ACKNOWLEDGED:
            found = files.get(each.place, "none")
            if found != each.value:
                text = f"file {each.place} of {each.author} has the digest {found}"
                yield Anomaly(Kind.LOST, text, (each.number,))
    for place, changes in _by_event(history).items():
        yield from _of_title(place, changes, titles.get(place, ""))


def _of_event(created: WebWrite, count: int) -> Iterator[Anomaly]:
    if count > 1:
        yield Anomaly(Kind.TWICE, f"{count} events {created.value}", (created.number,))
    if count == 0 and created.outcome is Outcome.ACKNOWLEDGED:
        yield Anomaly(Kind.LOST, f"event {created.value}", (created.number,))


def _by_event(history: Iterable[WebWrite]) -> Mapping[str, list[WebWrite]]:
    found = defaultdict(list)
    for each in sorted(history, key=lambda each: each.began):
        if each.what == CHANGED:
            found[each.place].append(each)
    return found


def _of_title(place: str, changes: Sequence[WebWrite], title: str) -> Iterator[Anomaly]:
    """Judge the changes of one event's title, by time: they do not overlap."""
    last = max(
        (at for at, each in enumerate(changes) if each.outcome is Outcome.ACKNOWLEDGED),
        default=None,
    )
    if last is None:
        return
    # What has an unknown outcome may have been saved, also after a later change.
    possible = {each.value for each in changes if each.outcome is not Outcome.ACKNOWLEDGED}
    if title not in {changes[last].value, *possible}:
        yield Anomaly(
            Kind.LOST,
            f"event {place} has the title {title!r}, not {changes[last].value!r}",
            (changes[last].number,),
        )
