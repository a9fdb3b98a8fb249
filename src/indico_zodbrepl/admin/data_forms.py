"""What operators fill in before the database is read, or Indico measured."""

from __future__ import annotations

from collections.abc import Sequence

from flask_babel import gettext
from flask_babel import lazy_gettext as _
from flask_wtf import FlaskForm
from wtforms import (
    BooleanField,
    FloatField,
    IntegerField,
    SelectField,
    SelectMultipleField,
    widgets,
)
from wtforms.fields import SelectChoice
from wtforms.validators import InputRequired, NumberRange

from indico_zodbrepl.bench.in_app import MODIFY, READ, TESTS, WRITE, cases

MOST_SHOWN = 200
MOST_SECONDS = 60.0
MOST_REPETITIONS = 1000
MOST_ROUNDS = 20
MOST_WHOLE_SECONDS = 3600.0
"""Of a whole run from the page; a longer one is begun on the command line."""


TOLD = {
    "testReadCategoryThroughput": _("testReadCategoryThroughput: reads the names of categories"),
    "testReadConferenceRoomsThroughput": _(
        "testReadConferenceRoomsThroughput: reads the rooms of conferences"),
    "testReadContributionsThroughput": _(
        "testReadContributionsThroughput: reads the titles of all contributions of conferences"),
    "testWriteConferencesLatency": _(
        "testWriteConferencesLatency: modifies conferences one by one, so many times"),
    "testWriteConferencesThroughput": _(
        "testWriteConferencesThroughput: modifies conferences, so many seconds")}


class StatisticsForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """Which copy of the database is read, and how much is told of it."""

    node = SelectField(_("Which copy"), default="")
    top = IntegerField(_("Largest objects to name"),
                       [InputRequired(), NumberRange(0, MOST_SHOWN)], default=15)
    history = BooleanField(_("Older states too, where they take longer"), default=True)

    def offer(self, readable: Sequence[str]) -> None:
        """Say which nodes can be read by themselves; before ``validate``."""
        self.node.choices = [SelectChoice("", gettext("what Indico uses")),
                             *(SelectChoice(name, gettext("node %(name)s", name=name))
                               for name in readable)]

    def arguments(self) -> list[str]:
        """Those of ``bin/zodbrepl``."""
        return ["stats", "--top", str(self.top.data),
                *(["--node", self.node.data] if self.node.data else []),
                *([] if self.history.data else ["--no-history"])]


class BenchmarkForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """Which tests are made inside Indico, and how long."""

    tests = SelectMultipleField(
        _("Tests"), default=list(READ), choices=[SelectChoice(name, TOLD[name]) for name in TESTS],
        widget=widgets.ListWidget(prefix_label=False), option_widget=widgets.CheckboxInput())
    instance = SelectField(_("Indico instance"))
    seconds = FloatField(_("Seconds of each measurement"),
                         [InputRequired(), NumberRange(0.05, MOST_SECONDS)], default=5.0)
    rounds = IntegerField(_("Rounds"), [InputRequired(), NumberRange(1, MOST_ROUNDS)], default=3)
    modify = SelectField(_("What is modified"), default=MODIFY[0],
                         choices=[SelectChoice(name) for name in MODIFY])
    repetitions = IntegerField(
        _("Modifications in a measurement of latency"),
        [InputRequired(), NumberRange(1, MOST_REPETITIONS)], default=50)
    writes = BooleanField(_("I know that the tests of writing modify conferences in this Indico"))

    def offer(self, instances: Sequence[str]) -> None:
        """Say which instances there are; before ``validate``."""
        self.instance.choices = [SelectChoice(name) for name in instances]

    def validate(self, extra_validators: object = None) -> bool:
        """Whether it can begin; what can't has an error at the field that is wrong."""
        valid = bool(super().validate(extra_validators))
        if not self.tests.data:
            self.tests.errors = [gettext("Choose a test at least.")]
            return False
        if set(self.tests.data) & set(WRITE) and not self.writes.data:
            self.writes.errors = [gettext("Say so, or choose tests that read only.")]
            return False
        if valid and self.whole_seconds() > MOST_WHOLE_SECONDS:
            self.seconds.errors = [gettext(
                "This would take %(seconds)s s at least, and %(most)s s are the most that is begun "
                "from here: take fewer tests, rounds or seconds.",
                seconds=round(self.whole_seconds()), most=round(MOST_WHOLE_SECONDS))]
            return False
        return valid

    def whole_seconds(self) -> float:
        """How long the measurements take together; after the fields were found valid."""
        made = cases(self.tests.data, self.modify.data)
        return float(len(made) * self.rounds.data * self.seconds.data)

    def arguments(self) -> list[str]:
        """Those of ``bin/zodbrepl``."""
        return ["bench", "in-app", "--instance", self.instance.data,
                *(part for name in TESTS if name in self.tests.data for part in ("--test", name)),
                "--seconds", f"{self.seconds.data:g}", "--rounds", str(self.rounds.data),
                *(["--modify", self.modify.data, "--repetitions", str(self.repetitions.data)]
                  if set(self.tests.data) & set(WRITE) else [])]
