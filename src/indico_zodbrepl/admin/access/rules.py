"""Which views need what, and what the present request may do.

A view that says nothing is for everybody who is logged in: nothing is open by oversight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from flask import current_app
from flask_babel import gettext as _
from flask_login import current_user

from indico_zodbrepl.admin.access.levels import Level, Person
from indico_zodbrepl.admin.site import here

View = TypeVar("View", bound=Callable[..., Any])
NEEDS = "_needs_level"
NOBODY = "nobody"


def public(view: View) -> View:
    """A view for everybody, without a login."""
    setattr(view, NEEDS, NOBODY)
    return view


def operator(view: View) -> View:
    """A view for operators, and for nobody while the page is read-only: 403 with the reason."""
    setattr(view, NEEDS, Level.OPERATOR)
    return view


def needed(endpoint: str | None) -> str:
    """The level that an endpoint needs, or NOBODY's."""
    if endpoint == "static":
        return NOBODY
    view = current_app.view_functions.get(endpoint or "")
    return cast(str, getattr(view, NEEDS, Level.VIEWER))


def person() -> Person | None:
    """Whoever the present request comes from; None for a stranger."""
    found = current_user._get_current_object()
    return found if isinstance(found, Person) else None


def actor() -> str:
    """The name for the journal, such as ``alice (admin page)``.

    Raises RuntimeError in a view that needs no login.
    """
    found = person()
    if found is None:
        raise RuntimeError("nobody is logged in")
    return found.actor


def may_operate() -> bool:
    """Whether the present request may begin operations."""
    return not why_not_operate()


def why_not_operate() -> str:
    """Why the present request may begin nothing, in one sentence; empty when it may."""
    if here().cluster.admin.read_only:
        return _("This page is read-only: operations are begun on the command line.")
    found = person()
    if found is None:
        return _("Log in as an operator to begin operations.")
    if found.level is not Level.OPERATOR:
        return _("%(name)s is a viewer: only operators begin operations.", name=found.name)
    return ""
