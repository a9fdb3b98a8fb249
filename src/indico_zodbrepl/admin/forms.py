"""What operators fill in before something is begun."""

from __future__ import annotations

from flask_babel import gettext
from flask_babel import lazy_gettext as _
from flask_wtf import FlaskForm
from wtforms import HiddenField, StringField
from wtforms.validators import DataRequired, Length

MOST_CHARACTERS = 500


def _stripped(text: str | None) -> str:
    return (text or "").strip()


class Confirmation(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """A name typed to confirm, and which plan or operation was looked at.

    Attributes:
        digest: of the plan that was shown.
        survey: the look that made it; empty for what needs none.
    """

    confirm = StringField(_("Confirm"), [DataRequired(_("Type the name to confirm."))],
                          [_stripped])
    digest = HiddenField()
    survey = HiddenField()

    def names(self, expected: str) -> bool:
        """Whether the right name was typed; if not, the field says so."""
        if _stripped(self.confirm.data) == expected:
            return True
        self.confirm.errors = [*self.confirm.errors, gettext(
            "This is not %(name)s. Nothing was begun.", name=expected)]
        return False


class Reasoned(Confirmation):
    """The same with a reason for the journal."""

    reason = StringField(
        _("Reason, for the journal"),
        [DataRequired(_("Say why: it goes into the journal.")), Length(max=MOST_CHARACTERS)],
        [_stripped])
