"""Forms that operators fill in before an operation, a read of the database or a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask_babel import gettext
from flask_babel import lazy_gettext as _
from flask_babel.speaklater import LazyString
from flask_wtf import FlaskForm
from wtforms import (
    BooleanField,
    DateTimeLocalField,
    FloatField,
    HiddenField,
    IntegerField,
    SelectField,
    SelectMultipleField,
    StringField,
    widgets,
)
from wtforms.fields import SelectChoice
from wtforms.form import BaseForm
from wtforms.validators import DataRequired, InputRequired, Length, NumberRange, Optional

from indico_zodbrepl.bench.suites.in_app import MODIFY, READ, TESTS, WRITE, cases
from indico_zodbrepl.operations.silences import MOST_HOURS

TIMES = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
"""Formats of browsers."""
MOST_CHARACTERS = 500
MOST_SHOWN = 200
MOST_SECONDS = 60.0
MOST_REPETITIONS = 1000
MOST_ROUNDS = 20
MOST_WHOLE_SECONDS = 3600.0
"""Longest benchmark that the page starts; start longer ones on the command line."""
TEST_TITLES = {
    "testReadCategoryThroughput": _("testReadCategoryThroughput: reads the names of categories"),
    "testReadConferenceRoomsThroughput": _(
        "testReadConferenceRoomsThroughput: reads the rooms of conferences"
    ),
    "testReadContributionsThroughput": _(
        "testReadContributionsThroughput: reads the titles of all contributions of conferences"
    ),
    "testWriteConferencesLatency": _(
        "testWriteConferencesLatency: modifies conferences one by one, a given number of times"
    ),
    "testWriteConferencesThroughput": _(
        "testWriteConferencesThroughput: modifies conferences, for a given time"
    ),
}


def wrong_fields(form: BaseForm | None) -> list[tuple[str, str, str]]:
    """Return id, label and errors of each wrong field of a page's form; focus the first one.

    The id and label are empty for errors of the whole form.
    """
    if form is None or not form.errors:
        return []
    wrong = [field for field in form if field.errors]
    for field in wrong[:1]:
        field.render_kw = {**(field.render_kw or {}), "autofocus": True}
    found = [(field.id, str(field.label.text), " ".join(map(str, field.errors))) for field in wrong]
    return found + [("", "", str(error)) for error in form.form_errors]


def why_wrong(form: BaseForm) -> str:
    """Return the names of the wrong fields with their errors, one line, for programs."""
    return " ".join(f"{field.name}: {error}" for field in form for error in field.errors)


def _stripped(text: str | None) -> str:
    return (text or "").strip()


def _reason(label: LazyString, missing: LazyString, **options: Any) -> Any:
    """Return a field for a reason that must be given; ``missing`` is the error if it is not."""
    required = [DataRequired(missing), Length(max=MOST_CHARACTERS)]
    return StringField(label, required, [_stripped], **options)


class Confirmation(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """A name typed as a confirmation, and the plan or operation that was shown.

    Attributes:
        digest: of the plan.
        survey: identifier of the survey that made it; may be empty.
    """

    confirm = StringField(_("Confirm"), [DataRequired(_("Type the name to confirm."))], [_stripped])
    digest = HiddenField()
    survey = HiddenField()

    def names(self, expected: str) -> bool:
        """Return True if the name was typed; else add an error to the field."""
        if _stripped(self.confirm.data) == expected:
            return True
        self.confirm.errors = [
            *self.confirm.errors,
            gettext("This is not %(name)s. Nothing was started.", name=expected),
        ]
        return False


class Reasoned(Confirmation):
    """A confirmation with a reason for the journal."""

    reason = _reason(_("Reason, for the journal"), _("Give a reason for the journal."))


class DecisionForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """A decision about lost transactions."""

    reason = _reason(_("Decision and reason, for the journal"), _("Say what you decided, and why."))


class PauseForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """Why the automatic failover is paused."""

    reason = _reason(_("Reason, for all who find it paused"), _("Give a reason."))


class SilenceForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """For how long an alert is silenced, and why."""

    hours = FloatField(
        _("Hours"),
        [
            InputRequired(_("Say for how many hours.")),
            NumberRange(1 / 60, MOST_HOURS, _("Choose up to 72 hours.")),
        ],
        default=4,
    )
    reason = _reason(_("Reason, for all who see the alert"), _("Give a reason."))


class SilenceEndForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """Why a silence is ended."""

    reason = _reason(_("Reason, for the journal"), _("Give a reason."), id="end-reason")


class StatisticsForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """Which copy of the database to read, and the amount of detail."""

    node = SelectField(_("Copy"), default="")
    top = IntegerField(
        _("Number of largest objects to list"),
        [InputRequired(), NumberRange(0, MOST_SHOWN)],
        default=15,
    )
    history = BooleanField(_("Include old revisions (slower)"), default=True)

    def offer(self, readable: Sequence[str]) -> None:
        """Set the nodes whose files can be read; call it before ``validate``."""
        self.node.choices = [
            SelectChoice("", gettext("the database that Indico uses")),
            *(SelectChoice(name, gettext("node %(name)s", name=name)) for name in readable),
        ]

    def arguments(self) -> list[str]:
        """Return the arguments of ``bin/zodbrepl``."""
        return [
            "stats",
            "--top",
            str(self.top.data),
            *(["--node", self.node.data] if self.node.data else []),
            *([] if self.history.data else ["--no-history"]),
        ]


class BackupForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """A backup, and why it is made."""

    node = SelectField(_("Copy"), default="")
    full = BooleanField(_("Make a full backup, also if an incremental one would do"))
    reason = _reason(_("Reason, for the journal"), _("Give a reason for the journal."))

    def offer(self, nodes: Sequence[str]) -> None:
        """Set the nodes; call it before ``validate``."""
        self.node.choices = [
            SelectChoice("", gettext("chosen automatically")),
            *(SelectChoice(name, gettext("node %(name)s", name=name)) for name in nodes),
        ]

    def arguments(self) -> list[str]:
        """Return the arguments of ``bin/zodbrepl``."""
        return [
            "backup",
            *([self.node.data] if self.node.data else []),
            *(["--full"] if self.full.data else []),
            *("--reason", self.reason.data),
        ]


class RestoreForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """Which backup to restore, and on which node."""

    node = SelectField(_("Node"))
    at = DateTimeLocalField(
        _("The newest backup before (UTC); empty: the newest"), [Optional()], format=TIMES
    )

    def offer(self, nodes: Sequence[str]) -> None:
        """Set the nodes; call it before ``validate``."""
        self.node.choices = [SelectChoice(name) for name in nodes]

    def arguments(self) -> list[str]:
        """Return the arguments of a ``bin/zodbrepl`` that changes nothing."""
        at = [] if self.at.data is None else ["--at", self.at.data.strftime(TIMES[0])]
        return ["restore", self.node.data, *at, "--dry-run"]


class BenchmarkForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """Which tests to run inside Indico, and for how long."""

    tests = SelectMultipleField(
        _("Tests"),
        default=list(READ),
        choices=[SelectChoice(name, TEST_TITLES[name]) for name in TESTS],
        widget=widgets.ListWidget(prefix_label=False),
        option_widget=widgets.CheckboxInput(),
    )
    instance = SelectField(_("Indico instance"))
    seconds = FloatField(
        _("Seconds per measurement"),
        [InputRequired(), NumberRange(0.05, MOST_SECONDS)],
        default=5.0,
    )
    rounds = IntegerField(_("Rounds"), [InputRequired(), NumberRange(1, MOST_ROUNDS)], default=3)
    modify = SelectField(
        _("Field to modify"), default=MODIFY[0], choices=[SelectChoice(name) for name in MODIFY]
    )
    repetitions = IntegerField(
        _("Modifications per measurement of latency"),
        [InputRequired(), NumberRange(1, MOST_REPETITIONS)],
        default=50,
    )
    writes = BooleanField(_("I know that write tests modify conferences in this Indico"))

    def offer(self, instances: Sequence[str]) -> None:
        """Set the instances; call it before ``validate``."""
        self.instance.choices = [SelectChoice(name) for name in instances]

    def validate(self, extra_validators: object = None) -> bool:
        """Return True if the form is valid; else add errors to its fields."""
        valid = bool(super().validate(extra_validators))
        if not self.tests.data:
            self.tests.errors = [gettext("Choose at least one test.")]
            return False
        if set(self.tests.data) & set(WRITE) and not self.writes.data:
            self.writes.errors = [gettext("Confirm this, or choose only tests that read.")]
            return False
        if valid and self.whole_seconds() > MOST_WHOLE_SECONDS:
            self.seconds.errors = [
                gettext(
                    "This would take at least %(seconds)s s; the page allows %(most)s s. Choose "
                    "fewer tests, rounds or seconds.",
                    seconds=round(self.whole_seconds()),
                    most=round(MOST_WHOLE_SECONDS),
                )
            ]
            return False
        return valid

    def whole_seconds(self) -> float:
        """Return the duration of all measurements; the fields must be valid."""
        made = cases(self.tests.data, self.modify.data)
        return float(len(made) * self.rounds.data * self.seconds.data)

    def arguments(self) -> list[str]:
        """Return the arguments of ``bin/zodbrepl``."""
        return [
            "bench",
            "in-app",
            "--instance",
            self.instance.data,
            *(part for name in TESTS if name in self.tests.data for part in ("--test", name)),
            "--seconds",
            f"{self.seconds.data:g}",
            "--rounds",
            str(self.rounds.data),
            *(
                ["--modify", self.modify.data, "--repetitions", str(self.repetitions.data)]
                if set(self.tests.data) & set(WRITE)
                else []
            ),
        ]
