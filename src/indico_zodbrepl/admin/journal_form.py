"""The form by which the journal is filtered."""

from __future__ import annotations

import datetime

from flask_babel import lazy_gettext as _
from flask_wtf import FlaskForm
from wtforms import DateTimeLocalField, IntegerField, SelectField, StringField
from wtforms.fields import SelectChoice
from wtforms.validators import Length, NumberRange, Optional

from indico_zodbrepl.admin.journal_filter import Choices, Wanted
from indico_zodbrepl.failover.operation import Operation, Outcome

TIMES = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
MOST_CHARACTERS = 200
MOST_PAGES = 1_000_000
ANY = SelectChoice("", _("any"))
KINDS = {"admin-user-add": _("account added"), "admin-user-remove": _("account removed"),
         "admin-user-password": _("password changed"), "admin-token-add": _("token added"),
         "admin-token-remove": _("token removed"), "node-start": _("server started"),
         "node-stop": _("server stopped"), "node-fence": _("node fenced"),
         "node-assign": _("role assigned"), "node-hold": _("writes held"),
         "node-release": _("writes released"), "node-promote": _("node promoted"),
         "node-follow": _("node made to follow"), "force": _("start forced")}
"""Of kinds of operations whose names are no words."""


def name_of(entry: Operation) -> str:
    """What an operation is called in the journal's pages, by its kind and what it was about."""
    kind = KINDS.get(entry.plan.operation)
    return entry.plan.name if kind is None else f"{kind}: {entry.plan.target}"


class FilterForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """What a reader looks for; asked by GET, so that the page has an address.  Times are UTC."""

    class Meta:
        csrf = False

    kind = SelectField(_("Operation"), default="")
    node = SelectField(_("About"), default="")
    outcome = SelectField(_("Outcome"), default="", choices=[
        ANY, *(SelectChoice(str(each)) for each in Outcome)])
    actor = SelectField(_("By"), default="")
    since = DateTimeLocalField(_("From (UTC)"), [Optional()], format=TIMES)
    until = DateTimeLocalField(_("Before (UTC)"), [Optional()], format=TIMES)
    text = StringField(_("Text"), [Length(max=MOST_CHARACTERS)], default="")
    page = IntegerField(_("Page"), [Optional(), NumberRange(1, MOST_PAGES)], default=1)

    def offer(self, choices: Choices) -> None:
        """Say what there is to choose from; before ``validate``."""
        self.kind.choices = [ANY, *(SelectChoice(name, KINDS.get(name)) for name in choices.kinds)]
        for field, names in ((self.node, choices.nodes), (self.actor, choices.actors)):
            field.choices = [ANY, *map(SelectChoice, names)]

    def wanted(self) -> Wanted:
        """What was asked for; after ``validate``."""
        return Wanted(self.kind.data, self.node.data, self.outcome.data, self.actor.data,
                      _seconds(self.since.data), _seconds(self.until.data),
                      (self.text.data or "").strip())


def _seconds(moment: datetime.datetime | None) -> float | None:
    return None if moment is None else moment.replace(tzinfo=datetime.UTC).timestamp()
