"""Answers to those who ask again and again: nothing has changed, or all of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from flask import Response, make_response, request

from indico_zodbrepl.admin.access.rules import person, why_not_operate
from indico_zodbrepl.admin.filters import clock
from indico_zodbrepl.admin.glance import Glance
from indico_zodbrepl.admin.languages import language

TAKEN = "Zodbrepl-Taken"
"""Header with the time of the snapshot, which a page shows though nothing else has changed."""


def answer(glance: Glance, render: Callable[[], str], *more: object) -> Response:
    """A live page, or 304 when the reader has what ``render`` would give.

    Args:
        more: whatever else the page depends on, besides the glance, who asks and for what.
    """
    reader = person()
    age = round(glance.sighting.age) if glance.sighting.stale else 0
    shown = (glance.version, age, request.full_path, reader and (reader.name, reader.level),
             why_not_operate(), language(), more)
    tag = hashlib.sha256(repr(shown).encode()).hexdigest()[:24]
    if request.if_none_match.contains(tag):
        response = Response(status=304)
    else:
        response = make_response(render())
    response.set_etag(tag)
    response.headers[TAKEN] = clock(glance.sighting.snapshot.taken_at)
    return response
