"""The timeline of an incident as Markdown, to begin a post-mortem with.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flask_babel import gettext as _
from flask_babel import lazy_gettext

from indico_zodbrepl.admin.filters import sentence
from indico_zodbrepl.admin.incident import Incident, IncidentEntry, IncidentKind
from indico_zodbrepl.admin.journal_view import name_of
from indico_zodbrepl.monitor.words import visible
from indico_zodbrepl.operations.losses import Loss
from indico_zodbrepl.probing.times import moment

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")
"""Characters of Markdown and HTML; each may have a backslash before it."""
KINDS = {
    IncidentKind.ALERT: lazy_gettext("alert"),
    IncidentKind.EVENT: lazy_gettext("event"),
    IncidentKind.OPERATION: lazy_gettext("operation"),
    IncidentKind.DECISION: lazy_gettext("automatic decision"),
    IncidentKind.LOG: lazy_gettext("log line"),
    IncidentKind.SAVING: lazy_gettext("saving"),
}


def escaped(text: object) -> str:
    """Return a text as one line that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", " ".join(visible(str(text)).split()))


def markdown(found: Incident, cluster: str) -> str:
    """Return the report; sections that people write are headings alone."""
    begins, ends = map(moment, found.period)
    parts = [
        _("# Incident: %(cluster)s, %(begins)s", cluster=escaped(cluster), begins=begins),
        _("From %(begins)s to %(ends)s.", begins=begins, ends=ends),
        f"## {_('Summary')}",
        "\n".join(f"- {each}" for each in _summary(found)),
        f"## {_('What happened')}",
        f"## {_('Impact')}",
        f"## {_('Who did what')}",
        "\n".join(f"- {each}" for each in _done(found)) or _("No operation."),
        f"## {_('Timeline')}",
        "\n".join(_table(found)),
        *(escaped(note) for note in found.notes),
        f"## {_('What went well')}",
        f"## {_('What went badly')}",
        f"## {_('Actions')}",
    ]
    return "\n\n".join(parts) + "\n"


def unavailable_text(found: Incident) -> str:
    """Return the number of answers 503 in words, one line."""
    if found.unavailable is None:
        return _("not measured")
    each = ", ".join(f"{name} {count}" for name, count in found.unavailable.items())
    return _("about %(count)s (%(each)s)", count=sum(found.unavailable.values()), each=each)


def loss_text(loss: Loss) -> str:
    """Return a loss and what became of it in words, one line."""
    count = _("an unknown number") if loss.transactions is None else loss.transactions
    text = _("%(count)s of node %(node)s", count=count, node=loss.node)
    if loss.recovered:
        text += _(", %(count)s of them recovered", count=loss.recovered)
    if loss.decision:
        decision = _(
            "%(who)s decided: %(reason)s", who=loss.decision.by, reason=loss.decision.reason
        )
        return f"{text}; {decision}"
    return text + _("; not decided") if loss.is_open else text


def _summary(found: Incident) -> Iterator[str]:
    for outage in found.outages:
        yield f"{_('Users could not save')}: {escaped(outage.text)}"
    if found.ongoing:
        yield _("Users cannot save now.")
    if not found.outages:
        yield _("No outage that has ended was recorded.")
    yield f"{_('Answers 503 of Indico')}: {escaped(unavailable_text(found))}"
    lost = "; ".join(map(loss_text, found.losses))
    yield f"{_('Lost transactions')}: {escaped(lost or _('none recorded'))}"


def _done(found: Incident) -> Iterator[str]:
    for each in found.operations:
        why = f": {escaped(each.plan.reason)}" if each.plan.reason else ""
        yield (
            f"{moment(each.began)}, {escaped(each.actor)}, {escaped(sentence(name_of(each)))} "
            f"({each.outcome}){why}"
        )


def _table(found: Incident) -> Iterator[str]:
    titles = (_("Time"), _("Kind"), _("Node"), _("Text"))
    yield f"| {' | '.join(titles)} |"
    yield "|---|---|---|---|"
    for each in found.entries:
        yield f"| {' | '.join(_row(each))} |"


def _row(entry: IncidentEntry) -> tuple[str, ...]:
    kind = str(KINDS[entry.kind])
    weight = f", {entry.weight}" if entry.weight else ""
    detail = f" ({escaped(entry.detail)})" if entry.detail else ""
    return (
        moment(entry.at),
        f"{kind}{weight}",
        escaped(entry.subject),
        f"{escaped(entry.text)}{detail}",
    )
