"""What programs send, read strictly: each field of the right kind, and none that is not known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from indico_zodbrepl.failover.requests import Request

MOST_BYTES = 16 * 1024
MOST_CHARACTERS = 500
"""Of any text."""


class Unusable(Exception):
    """Why a body can't be used, and the status code that says so."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class PlanBody:
    """An operation that is asked for.

    Attributes:
        operation: failover, switchover, rejoin, seed, pack or restart.
        target: the node, of a restart also an Indico instance; without it the planner chooses.
        reason: why, for the journal.
        options: of a seed `source`, the node to copy from; of a pack `days`, how many days of
            history are kept.
    """

    operation: str
    target: str | None = None
    reason: str = ""
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def request(self) -> Request:
        return Request(self.operation, self.target, self.reason, self.options)


@dataclasses.dataclass(frozen=True)
class BeginBody(PlanBody):
    """An operation that is to begin.

    Attributes:
        expected: the digest of the plan that was looked at; if the plan would be another one now,
            or another operation has begun since, nothing is done.
    """

    expected: str = dataclasses.field(kw_only=True)


@dataclasses.dataclass(frozen=True)
class EndBody:
    """How an open operation is ended.

    Attributes:
        reason: why, for the journal; to abandon one it is required.
    """

    reason: str = ""


Body = TypeVar("Body", PlanBody, BeginBody, EndBody)


def parse(kind: type[Body], content: bytes) -> Body:
    """The body of a request.

    Raises:
        Unusable: 400, it is no JSON object; 422, a field is missing, unknown or of a wrong kind.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise Unusable(400, "the body is no JSON") from None
    if not isinstance(values, dict):
        raise Unusable(400, "the body is no JSON object")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name, value in values.items():
        if name not in fields:
            raise Unusable(422, f"{name[:40]!r} is not known; there are: {', '.join(fields)}")
        _require(name, value)
    missing = [name for name, field in fields.items() if name not in values
               and field.default is field.default_factory is dataclasses.MISSING]
    if missing:
        raise Unusable(422, f"missing: {', '.join(missing)}")
    return kind(**values)


def _require(name: str, value: Any) -> None:
    if name == "options":
        if not isinstance(value, dict):
            raise Unusable(422, "options is no object")
        for each in (*value, *value.values()):
            _require_text("options", each)
    elif not (name == "target" and value is None):
        _require_text(name, value)


def _require_text(name: str, value: Any) -> None:
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS or not value.isprintable():
        raise Unusable(422, f"{name} is not one line of at most {MOST_CHARACTERS} characters")
