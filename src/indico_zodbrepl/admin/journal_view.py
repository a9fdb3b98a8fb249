"""The journal for pages: its filter and form, a cached reader, and the texts of jobs."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from flask_babel import gettext
from flask_babel import lazy_gettext as _
from flask_wtf import FlaskForm
from wtforms import DateTimeLocalField, IntegerField, SelectField, StringField
from wtforms.fields import SelectChoice
from wtforms.validators import Length, NumberRange, Optional

from indico_zodbrepl.admin.forms import TIMES
from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.operations import journal
from indico_zodbrepl.operations.losses import DECIDED, Loss, losses
from indico_zodbrepl.operations.operation import Operation, Outcome
from indico_zodbrepl.operations.outages import OUTAGE
from indico_zodbrepl.operations.planning import Request
from indico_zodbrepl.operations.recover import DOWNLOADED, VALUES_SHOWN
from indico_zodbrepl.operations.silences import END, SILENCE

PAGE = 25
"""Operations of a page."""
MOST_CHARACTERS = 200
MOST_PAGES = 1_000_000
ANY = SelectChoice("", _("any"))
KINDS = {
    "admin-user-add": _("account added"),
    "admin-user-remove": _("account removed"),
    "admin-user-password": _("password changed"),
    "admin-token-add": _("token added"),
    "admin-token-remove": _("token removed"),
    "node-start": _("server started"),
    "node-stop": _("server stopped"),
    "node-fence": _("node fenced"),
    "node-assign": _("role assigned"),
    "node-pause-writes": _("writes paused"),
    "node-resume-writes": _("writes resumed"),
    "node-promote": _("node promoted"),
    "node-follow": _("upstream changed"),
    "force": _("start forced"),
    DECIDED: _("decision about a loss"),
    SILENCE: _("alert silenced"),
    END: _("silence ended"),
    OUTAGE: _("saving interrupted"),
    VALUES_SHOWN: _("protected values shown"),
    DOWNLOADED: _("recovery export downloaded"),
}
"""Names of operations that are not words."""
OPTIONS = {"--from": "source", "--days": "days"}
NOTICE = "NOTICE: "
CHANGED = "the situation has changed since the plan was shown"
Journal = tuple[tuple[Operation, ...], tuple[str, ...]]
"""Operations in the order in which they began, and a notice for each unreadable line."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A filter of operations; an empty text and None match everything.

    Attributes:
        node: a node or Indico instance that the operation is about, or acts on.
        since, until: of its begin, in seconds since 1970; the latter excluded.
        text: part of any of its texts, regardless of case.
    """

    kind: str = ""
    node: str = ""
    outcome: str = ""
    actor: str = ""
    since: float | None = None
    until: float | None = None
    text: str = ""

    def fits(self, entry: Operation) -> bool:
        """Return True if the operation matches."""
        return (
            self.kind in ("", entry.plan.operation)
            and (not self.node or self.node in subjects(entry))
            and self.outcome in ("", entry.outcome)
            and self.actor in ("", entry.actor)
            and (self.since is None or entry.began >= self.since)
            and (self.until is None or entry.began < self.until)
            and (
                not self.text
                or any(self.text.casefold() in each.casefold() for each in _texts(entry))
            )
        )


@dataclasses.dataclass(frozen=True)
class Selection:
    """One page of the matching operations.

    Attributes:
        entries: newest first.
        number, pages: number of this page, from 1, and of all pages, at least 1.
        fitting: number of matching operations.
        outcomes: numbers of them by outcome.
    """

    entries: tuple[Operation, ...]
    number: int
    pages: int
    fitting: int
    outcomes: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Choices:
    """The values that a filter can have, sorted."""

    kinds: tuple[str, ...]
    nodes: tuple[str, ...]
    actors: tuple[str, ...]


def select(entries: Iterable[Operation], wanted: Wanted, number: int) -> Selection:
    """Return a page of the matching operations, newest first.

    Args:
        number: of the page, from 1; greater numbers mean the last one.
    """
    fitting = sorted(filter(wanted.fits, entries), key=lambda entry: entry.began, reverse=True)
    pages = max(1, -(-len(fitting) // PAGE))
    number = min(max(1, number), pages)
    return Selection(
        tuple(fitting[(number - 1) * PAGE : number * PAGE]),
        number,
        pages,
        len(fitting),
        dict(Counter(str(entry.outcome) for entry in fitting)),
    )


def newest_before(
    entries: Iterable[Operation], wanted: Wanted, before: str, limit: int
) -> tuple[list[Operation], bool]:
    """Return the newest matching operations, newest first, and True if there are older ones.

    Args:
        before: id; only earlier operations of the journal.  An unknown id, such as "", is later
            than all.
    """
    known = list(entries)
    names = [entry.identifier for entry in known]
    if before in names:
        known = known[: names.index(before)]
    fitting = [entry for entry in reversed(known) if wanted.fits(entry)]
    return fitting[:limit], len(fitting) > limit


def choices(entries: Sequence[Operation], nodes: Iterable[str]) -> Choices:
    """Return the values that a filter can have.

    Args:
        nodes: of the cluster; they need not be in the journal.
    """
    known = {*nodes}.union(*map(subjects, entries))
    return Choices(
        tuple(sorted({entry.plan.operation for entry in entries})),
        tuple(sorted(known)),
        tuple(sorted({entry.actor for entry in entries})),
    )


def subjects(entry: Operation) -> set[str]:
    """Return the target and source of an operation, and the subjects of its steps."""
    plan = entry.plan
    return {plan.target, plan.source, *(step.subject for step in plan.steps)} - {""}


def _texts(entry: Operation) -> Iterator[str]:
    plan = entry.plan
    yield from (entry.identifier, entry.actor, entry.remark, plan.name, plan.reason)
    if plan.loss is not None:
        yield plan.loss.text
    for finding in plan.findings:
        yield from (finding.text, finding.evidence)
    for step, record in zip(plan.steps, entry.records, strict=True):
        yield from (step.title, record.error)
    for value in entry.figures.values():
        yield from map(str, value if isinstance(value, list) else [value])


def name_of(entry: Operation) -> str:
    """Return the name of an operation in the journal's pages."""
    kind = KINDS.get(entry.plan.operation)
    return entry.plan.name if kind is None else f"{kind}: {entry.plan.target}"


class FilterForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """The filter as a form; sent by GET, so that the result has an address.  Times are UTC."""

    class Meta:
        csrf = False

    kind = SelectField(_("Operation"), default="")
    node = SelectField(_("About"), default="")
    outcome = SelectField(
        _("Outcome"), default="", choices=[ANY, *(SelectChoice(str(each)) for each in Outcome)]
    )
    actor = SelectField(_("By"), default="")
    since = DateTimeLocalField(_("From (UTC)"), [Optional()], format=TIMES)
    until = DateTimeLocalField(_("Before (UTC)"), [Optional()], format=TIMES)
    text = StringField(_("Text"), [Length(max=MOST_CHARACTERS)], default="")
    page = IntegerField(_("Page"), [Optional(), NumberRange(1, MOST_PAGES)], default=1)

    def offer(self, choices: Choices) -> None:
        """Set the choices; call it before ``validate``."""
        self.kind.choices = [ANY, *(SelectChoice(name, KINDS.get(name)) for name in choices.kinds)]
        for field, names in ((self.node, choices.nodes), (self.actor, choices.actors)):
            field.choices = [ANY, *map(SelectChoice, names)]

    def wanted(self) -> Wanted:
        """Return the filter; call it after ``validate``."""
        return Wanted(
            self.kind.data,
            self.node.data,
            self.outcome.data,
            self.actor.data,
            seconds_of(self.since.data),
            seconds_of(self.until.data),
            (self.text.data or "").strip(),
        )


def seconds_of(moment: datetime.datetime | None) -> float | None:
    """Return a time of a form, which is UTC, in seconds since 1970; None without one."""
    return None if moment is None else moment.replace(tzinfo=datetime.UTC).timestamp()


def read(cluster: Cluster) -> Journal:
    """Return the journal, read again only after its file changed.  Raises OperatorError.

    Threads: any.
    """
    return _latest(cluster)[0]


def lost(cluster: Cluster) -> tuple[Loss, ...]:
    """Return the losses in the journal, newest first; as ``read``."""
    return _latest(cluster)[1]


def _latest(cluster: Cluster) -> tuple[Journal, tuple[Loss, ...]]:
    state = journal.state(cluster)
    return _read(cluster) if state is None else _of_state(cluster, state)


@functools.lru_cache(maxsize=2)
def _of_state(cluster: Cluster, _state: journal.FileState) -> tuple[Journal, tuple[Loss, ...]]:
    return _read(cluster)


def _read(cluster: Cluster) -> tuple[Journal, tuple[Loss, ...]]:
    entries, notices = journal.read(cluster)
    return (tuple(entries), tuple(notices)), losses(entries)


def asked(command: str) -> Request | None:
    """Return the operation that a command line begins; None for others, such as ``recover``."""
    words = shlex.split(command)[1:]
    plain, options = [], {}
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            plain.append(word)
        elif words:
            value = words.pop(0)
            if word in OPTIONS:
                options[OPTIONS[word]] = value
    if not plain or len(plain) > 2:
        return None
    return Request(plain[0], plain[1] if len(plain) == 2 else None, "", options)


def state(job: Job) -> str:
    """Return the state of a job in words."""
    if job.ended is None:
        return gettext("running")
    if job.exit_code is None:
        return gettext("ended; its exit code is unknown")
    if job.exit_code == 0:
        return gettext("done")
    meaning = next(
        (each.meaning for each in ExitCode if each == job.exit_code),
        gettext("killed by a signal"),
    )
    return gettext("exit code %(code)s: %(meaning)s", code=job.exit_code, meaning=meaning)


def has_changed(job: Job) -> bool:
    """Return True if it did nothing because the plan had changed since it was shown."""
    return job.exit_code == ExitCode.REFUSED and any(CHANGED in line for line in job.output)


def notice(job: Job) -> str:
    """Return its NOTICE line if it failed; empty without one."""
    if not job.exit_code:
        return ""
    return next(
        (line.removeprefix(NOTICE) for line in reversed(job.output) if line.startswith(NOTICE)), ""
    )
