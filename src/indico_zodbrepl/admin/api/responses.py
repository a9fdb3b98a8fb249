"""How requests and responses are described, for all paths alike."""

from __future__ import annotations

import dataclasses
from typing import Any

from indico_zodbrepl.admin.api import bodies
from indico_zodbrepl.admin.api.answers import Problem
from indico_zodbrepl.admin.api.problems import MEDIA_TYPE
from indico_zodbrepl.admin.api.schemas import Schema, Schemas
from indico_zodbrepl.failover.requests import OPERATIONS

Route = dict[str, Any]

HOST = "The Host header names another page."
SESSION = f"{HOST[:-1]}; or a session posts without its CSRF token; or the body is no JSON object."
NOT_LOGGED_IN = "No valid token, and no session."
NO_OPERATOR = "The token or the session is a viewer's, or the page is read-only."
NO_JSON = "The body is not application/json."
TOO_LONG = f"The body is longer than {bodies.MOST_BYTES} bytes."
ACCOUNTS = "The accounts of the page can't be used."
UNKNOWN = "No such job or operation."
LOCATION = {"Location": {"description": "Where its progress is.", "required": True,
                         "schema": {"type": "string"}}}


class Responses:
    """Descriptions of bodies by the classes behind them.

    Args:
        schemas: takes the schemas that are referred to.
    """

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def answer(self, kind: type | Schema, said: str) -> Route:
        """A response in JSON; of a class, or of a schema."""
        schema = kind if isinstance(kind, dict) else self._schemas.of(kind)
        return {"description": said, "content": {"application/json": {"schema": schema}}}

    def problems(self, said: dict[int, str]) -> Route:
        """Responses that say why something was not done, by their status codes."""
        schema = self._schemas.of(Problem)
        return {str(code): {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}}
                for code, text in said.items()}

    def body(self, kind: type, *, required: bool = True) -> Route:
        """What is sent: strict, as ``bodies`` reads it."""
        reference = self._schemas.of(kind)
        schema = self._schemas.found[kind.__name__]
        schema["required"] = [
            field.name for field in dataclasses.fields(kind)
            if field.default is field.default_factory is dataclasses.MISSING]
        properties = schema["properties"]
        for name in properties:
            properties[name] |= ({"additionalProperties": TEXT} if name == "options" else
                                 {"enum": list(OPERATIONS)} if name == "operation" else
                                 {key: value for key, value in TEXT.items() if key != "type"})
        return {"required": required, "content": {"application/json": {"schema": reference}}}


TEXT: Schema = {"type": "string", "maxLength": bodies.MOST_CHARACTERS,
                "pattern": r"^[^\x00-\x1f\x7f]*$"}
