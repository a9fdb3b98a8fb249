"""Bodies of requests, JSON answers and errors as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

import http
from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from flask import Response, request

from indico_zodbrepl.admin.api.answers import Problem
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations.model import Refusal
from indico_zodbrepl.operations.planning import OPERATIONS, Request
from indico_zodbrepl.probing import typed_json

PROBLEM_TYPE = "application/problem+json"
STATUS = {ExitCode.BAD_CONFIG: 422, ExitCode.NOT_RUNNING: 409, ExitCode.REFUSED: 409}
"""Status codes of refused operations; 503 for all other exit codes."""
MAX_BYTES = 16 * 1024
MAX_CHARACTERS = 500
"""Longest text in a request."""

Line = Annotated[
    str,
    msgspec.Meta(max_length=MAX_CHARACTERS, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$(?!\n)"),
]


class Unusable(Exception):
    """A body that cannot be used: why, and the status code."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class PlanBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The operation to plan.

    Attributes:
        operation: failover, switchover, rejoin, clone, pack or restart.
        target: the node, or the Indico instance of a restart; if missing, the planner chooses.
        reason: why, for the journal.
        options: of a clone `source`, the node to copy from; of a pack `days`, the days of history
            to keep.
    """

    operation: Annotated[Line, msgspec.Meta(extra_json_schema={"enum": list(OPERATIONS)})]
    target: Line | None = None
    reason: Line = ""
    options: dict[Line, Line] = {}

    @property
    def request(self) -> Request:
        return Request(self.operation, self.target, self.reason, self.options)


class BeginBody(PlanBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The operation to begin.

    Attributes:
        expected: the digest of its plan. Nothing is done if the plan is different now, or another
            operation has begun since.
    """

    expected: Annotated[Line, msgspec.Meta(min_length=1)]


class EndBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to end an open operation.

    Attributes:
        reason: why, for the journal; required to abandon an operation.
    """

    reason: Line = ""


Body = TypeVar("Body", PlanBody, BeginBody, EndBody)


def body(kind: type[Body], default: bytes = b"") -> Body:
    """Decode the body of the present request.

    Args:
        default: the body if the request has none.

    Raises:
        Unusable: 400, it is not a JSON object; 415, it is not application/json; 422, a field is
            missing, unknown or invalid.
        RequestEntityTooLarge: it has more than MAX_BYTES.
    """
    request.max_content_length = MAX_BYTES
    content = request.get_data()
    if content and not request.is_json:
        raise Unusable(415, "the body is not application/json")
    return decode(kind, content or default)


def decode(kind: type[Body], content: bytes) -> Body:
    """Decode a body.  Raises Unusable as ``body``."""
    if not content.lstrip().startswith(b"{"):
        raise Unusable(400, "the body is not a JSON object")
    try:
        return typed_json.decode(content, kind)
    except msgspec.ValidationError as error:
        raise Unusable(422, str(error)) from None
    except msgspec.DecodeError as error:
        raise Unusable(400, f"the body is not JSON: {error}") from None


def reply(answer: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(answer), status, headers, content_type="application/json")


def is_for_programs(path: str) -> bool:
    """Return True if errors of that path are answered as problem+json."""
    return path.startswith("/api/") or path in ("/health", "/primary", "/replica", "/metrics")


def problem(
    status: int,
    notice: str,
    detail: str = "",
    hint: str = "",
    headers: Mapping[str, str] | None = None,
    *,
    refused: Refusal | None = None,
    exit_code: int | None = None,
) -> Response:
    found = Problem(
        "about:blank",
        http.HTTPStatus(status).phrase,
        status,
        notice,
        detail,
        hint,
        exit_code,
        refused.findings if refused else (),
    )
    response = reply(found, status, headers)
    response.content_type = PROBLEM_TYPE
    return response


def of_operation(error: OperatorError) -> Response:
    """Answer with the reason why an operation did not begin."""
    status = STATUS.get(error.exit_code, 503)
    return problem(status, error.notice, error.detail, error.hint, exit_code=int(error.exit_code))


def of_refusal(refusal: Refusal) -> Response:
    """Answer with the reason why there is no plan."""
    against = "; ".join(
        f"{each.subject + ': ' if each.subject else ''}{each.text}"
        for each in refusal.findings
        if each.verdict == "against"
    )
    return problem(
        409,
        refusal.notice,
        against,
        refusal.hint,
        refused=refusal,
        exit_code=int(ExitCode.REFUSED),
    )
