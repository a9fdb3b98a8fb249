"""What went wrong, as programs read it: ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

import dataclasses
import http
from collections.abc import Mapping

from flask import Response, json

from indico_zodbrepl.admin.api.answers import Problem
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.failover.steps import Refusal

MEDIA_TYPE = "application/problem+json"
STATUS = {ExitCode.BAD_CONFIG: 422, ExitCode.NOT_RUNNING: 409, ExitCode.REFUSED: 409}
"""The status code for what an operation was refused with; 503 for all others."""


def is_for_programs(path: str) -> bool:
    """Whether programs ask that path, and get its errors in this way."""
    return path.startswith("/api/") or path in ("/health", "/primary", "/replica", "/metrics")


def problem(status: int, notice: str, detail: str = "", hint: str = "",
            headers: Mapping[str, str] | None = None) -> Response:
    """The response for something that no command is behind."""
    return _response(Problem("about:blank", _title(status), status, notice, detail, hint), headers)


def of_operation(error: OperatorError) -> Response:
    """The response for what an operation ended with before it began."""
    status = STATUS.get(error.exit_code, 503)
    return _response(Problem("about:blank", _title(status), status, error.notice, error.detail,
                             error.hint, int(error.exit_code)))


def of_refusal(refusal: Refusal) -> Response:
    """The response for an operation that there is no plan for."""
    against = "; ".join(f"{each.subject + ': ' if each.subject else ''}{each.text}"
                        for each in refusal.findings if each.verdict == "against")
    return _response(Problem("about:blank", _title(409), 409, refusal.notice, against, refusal.hint,
                             int(ExitCode.REFUSED), refusal.findings))


def _title(status: int) -> str:
    return http.HTTPStatus(status).phrase


def _response(told: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(dataclasses.asdict(told)), told.status, headers,
                    content_type=MEDIA_TYPE)
