"""The OpenAPI description, made of the views, their ``describe`` decorators and answer classes."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypeVar, cast

import msgspec
from apispec import APISpec
from flask import Flask

from indico_zodbrepl.admin.access import gate
from indico_zodbrepl.admin.access.accounts import Level
from indico_zodbrepl.admin.api import exchange
from indico_zodbrepl.admin.api.answers import Begun, Problem
from indico_zodbrepl.monitor.snapshot import TIDS

Schema = dict[str, Any]
View = TypeVar("View", bound=Callable[..., Any])

ABOUT = """\
Answers are JSON, errors are application/problem+json with `notice`, `detail` and `hint`. Times are
seconds since 1970. Paths below /api need a token (`Authorization: Bearer TOKEN`) or the session of
a user who is logged in. A POST with a session also needs the page's CSRF token in the header
X-CSRFToken. A viewer's token can read and plan; only an operator's can begin or end operations."""
HOST = "The Host header names another site."
SESSION = "A session sent no CSRF token. The body is not a JSON object."
NOT_LOGGED_IN = "No valid token and no session."
NO_OPERATOR = "The token or session belongs to a viewer, or the page is read-only."
NO_JSON = "The body is not application/json."
TOO_LONG = f"The body has more than {exchange.MAX_BYTES} bytes."
BUSY = "Too many simultaneous requests, of this account or of all; see Retry-After."
ACCOUNTS = "The accounts of the page cannot be used."
DESCRIPTION = "_openapi"
TID = "^0x[0-9a-f]{16}$"
"""Transaction ids are text: they exceed JavaScript's numbers."""


@dataclasses.dataclass(frozen=True)
class _Described:
    answers: Mapping[int, tuple[type | Schema, str]]
    problems: Mapping[int, str]
    parameters: Sequence[Schema]
    body: type | None
    content_type: str


def describe(
    answers: Mapping[int, tuple[type | Schema, str]],
    problems: Mapping[int, str] | None = None,
    *,
    parameters: Sequence[Schema] = (),
    body: type | None = None,
    content_type: str = "application/json",
) -> Callable[[View], View]:
    """Describe a view; the first line of its docstring is the summary.

    Errors that follow from its access level and from having a body are added.

    Args:
        answers: type or schema of the answer, and when it is given, by status code.
        problems: when each other status code is given.
        body: type of the request's body.
    """

    def mark(view: View) -> View:
        setattr(
            view,
            DESCRIPTION,
            _Described(answers, problems or {}, parameters, body, content_type),
        )
        return view

    return mark


def query(name: str, description: str, schema: Schema | None = None) -> Schema:
    """Return a parameter of the query string."""
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": schema or {"type": "string"},
    }


ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
    "description": "Id of a job, as in Location, or of an operation of the journal.",
}


def document(app: Flask) -> dict[str, Any]:
    """Return the description of all views of an application that have ``describe``."""
    spec = APISpec(
        "indico_zodbrepl",
        version("indico_zodbrepl"),
        "3.1.0",
        info={"description": ABOUT},
        security=[{"token": []}, {"session": []}],
    )
    spec.components.security_scheme(
        "token",
        {
            "type": "http",
            "scheme": "bearer",
            "description": "Made by `bin/zodbrepl admin token add NAME`.",
        },
    )
    spec.components.security_scheme(
        "session",
        {
            "type": "apiKey",
            "in": "cookie",
            "name": "zodbrepl-PORT",
            "description": (
                "Cookie of the admin page on that port. Over TLS its prefix is __Host-, or "
                "__Secure- below a path."
            ),
        },
    )
    kinds: set[type] = {Problem}
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        said = cast(_Described | None, getattr(view, DESCRIPTION, None))
        if said is None:
            continue
        kinds |= {kind for kind, _when in said.answers.values() if isinstance(kind, type)}
        kinds |= {said.body} if said.body else set()
        methods = (rule.methods or set()) & {"GET", "POST"}
        spec.path(
            rule.rule.replace("<identifier>", "{id}"),
            operations={method.lower(): _operation(view, said) for method in methods},
            parameters=[ID] if rule.arguments else [],
        )
    for name, schema in _schemas(kinds):
        spec.components.schema(name, schema)
    return spec.to_dict()


def _operation(view: Callable[..., Any], said: _Described) -> Schema:
    needs = getattr(view, gate.NEEDS, Level.VIEWER)
    problems = {400: HOST}
    if needs != gate.NOBODY:
        problems |= {401: NOT_LOGGED_IN, 429: BUSY, 503: ACCOUNTS}
    if needs == Level.OPERATOR:
        problems[403] = NO_OPERATOR
    if said.body:
        problems |= {400: f"{HOST} {SESSION}", 413: TOO_LONG, 415: NO_JSON}
    for code, text in said.problems.items():
        problems[code] = " ".join([text, *([problems[code]] if code in problems else [])])
    responses: dict[str, Schema] = {
        str(code): {
            "description": text,
            "content": {exchange.PROBLEM_TYPE: {"schema": _reference(Problem)}},
        }
        for code, text in problems.items()
    }
    for code, (kind, text) in said.answers.items():
        responses[str(code)] = {
            "description": text,
            "content": {
                said.content_type: {"schema": kind if isinstance(kind, dict) else _reference(kind)}
            },
        }
        if kind is Begun:
            responses[str(code)]["headers"] = {
                "Location": {
                    "description": "Path of its progress.",
                    "required": True,
                    "schema": {"type": "string"},
                }
            }
    found: Schema = {
        "summary": (inspect.getdoc(view) or "").partition("\n")[0].rstrip("."),
        "operationId": view.__name__,
        "responses": responses,
    }
    if needs == gate.NOBODY:
        found["security"] = []
    if said.parameters:
        found["parameters"] = list(said.parameters)
    if said.body:
        found["requestBody"] = {
            "required": bool(dict(_schemas({said.body}))[said.body.__name__]["required"]),
            "content": {"application/json": {"schema": _reference(said.body)}},
        }
    return found


def _reference(kind: type) -> Schema:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _schemas(kinds: set[type]) -> Iterator[tuple[str, Schema]]:
    """Yield msgspec's schemas, by name, with the descriptions of attributes in the docstrings."""
    by_name = {kind.__name__: kind for kind in kinds}
    _roots, found = msgspec.json.schema_components(
        [by_name[name] for name in sorted(by_name)], ref_template="#/components/schemas/{name}"
    )
    for name, schema in sorted(found.items()):
        del schema["title"]
        bases = by_name[name].__mro__[-2:0:-1] if name in by_name else ()
        said, about = _sentences(*(each.__doc__ or "" for each in bases), schema["description"])
        schema["description"] = said
        if "properties" in schema:
            if "additionalProperties" not in schema:  # an answer: all its fields are always there
                schema |= {"additionalProperties": False, "required": list(schema["properties"])}
            for field, value in schema["properties"].items():
                value.pop("default", None)
                if field in TIDS:
                    nullable = value.pop("anyOf", None) is not None
                    value |= {"type": ["string", "null"] if nullable else "string", "pattern": TID}
                if field in about:
                    value["description"] = about[field]
        yield name, schema


def _sentences(*docstrings: str) -> tuple[str, dict[str, str]]:
    """Return what docstrings say of a class, and of each attribute of it and its bases."""
    said = ""
    about: dict[str, str] = {}
    for docstring in docstrings:
        said, _heading, rows = inspect.cleandoc(docstring).partition("\n\nAttributes:\n")
        for names, text in re.findall(r"^ {4}(\S[^:\n]*): (.*(?:\n {8}.*)*)", rows, re.MULTILINE):
            about |= dict.fromkeys(names.split(", "), _one_line(text))
    return _one_line(said), about


def _one_line(text: str) -> str:
    """Return the text without line ends, and with JSON's word for None."""
    text = re.sub(r"\bNone\b", "null", text.replace("``", "`"))
    return re.sub(r"\s+", " ", text).strip()
