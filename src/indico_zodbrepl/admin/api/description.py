"""The OpenAPI description of everything that programs ask; tests hold it against the code."""

from __future__ import annotations

import functools
from importlib.metadata import version
from typing import Any

from indico_zodbrepl.admin.api import operation_routes, routes
from indico_zodbrepl.admin.api.responses import Responses
from indico_zodbrepl.admin.api.schemas import Schema, Schemas
from indico_zodbrepl.monitor.procedures import Procedure
from indico_zodbrepl.monitor.snapshot import Snapshot

SAID = """\
Everything answers in JSON, errors as application/problem+json with `notice`, `detail` and `hint`.
Times are seconds since 1970. Paths below /api need a token (`Authorization: Bearer TOKEN`) or the
session of somebody who is logged in; what a session posts needs the page's CSRF token in the header
X-CSRFToken as well. A viewer's token is enough to look and to plan; only an operator's begins or
ends something."""


@functools.cache
def description() -> dict[str, Any]:
    """The document, for ``json.dumps``; not to be changed."""
    schemas = Schemas()
    told = Responses(schemas)
    paths = {**routes.paths(told, _status(schemas)), **operation_routes.paths(told)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "indico_zodbrepl", "version": version("indico_zodbrepl"),
                 "description": SAID},
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.found.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer",
                          "description": "Made by `bin/zodbrepl admin token add NAME`."},
                "session": {"type": "apiKey", "in": "cookie", "name": "zodbrepl-PORT",
                            "description": "Of the admin page; PORT is its own."}}}}


def _status(schemas: Schemas) -> Schema:
    """The snapshot, and what the page adds to it."""
    schemas.of(Snapshot)
    status = schemas.found["Snapshot"]
    more = {
        "code": {"type": "integer", "description": "what bin/zodbrepl status would exit with"},
        "age": {"type": "number", "description": "seconds since the look was complete"},
        "stale": {"type": "boolean", "description": "whether it is too old to go by"},
        "next_steps": {"type": "array", "items": schemas.of(Procedure),
                       "description": "what to do now, the most urgent first"}}
    schemas.found["Status"] = {**status, "properties": {**status["properties"], **more},
                               "required": [*status["required"], *more]}
    del schemas.found["Snapshot"]
    return {"$ref": "#/components/schemas/Status"}
