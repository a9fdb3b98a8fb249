"""The OpenAPI description and the page's metrics as a page of the reference."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from flask import Flask

from indico_zodbrepl.admin.api import openapi
from indico_zodbrepl.admin.api.openapi import Schema
from indico_zodbrepl.admin.pages import (
    api,
    backups,
    configuration,
    history,
    incident,
    logs,
    machines,
)
from indico_zodbrepl.monitor.metrics import SNAPSHOT_METRICS

HEAD = """\
# The admin page's API

{about}

The same as OpenAPI 3.1 is at `/api/openapi.json`. Tests compare both with the actual answers. How
to use `/primary` and `/replica`: [behind a load balancer](../how-to/load-balancer.md).

    $ curl -s -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8100/api/operations?limit=1

`tools/reference` makes this page from the description.
"""
BEGIN = """\
## Begin an operation, step by step

1. POST the request to `/api/operations/plan`. The answer has the plan, the data that it would lose,
   and its `digest`. A refusal (409) has `findings`.
2. POST the same with the digest as `expected` to `/api/operations`. The answer is 202 with the
   job's path in `Location`. If the plan is different by then, the job does nothing and exits with
   code 8.
3. GET that path until `state` is no longer `running`. It has the steps with their times, the
   figures and the command's output.
4. A `stopped` operation is open: no other one begins before a POST to its `/resume`, `/undo` or
   `/abandon`.

The API uses the planner, executor, lock and journal of the command line. `bin/zodbrepl journal`
shows what the API began, and the API shows what the command line began.
"""
METRICS = """\
## Metrics

`/metrics` exports these from the page's own snapshots. The [monitor
process](../how-to/monitor.md#prometheus) exports the same and more; scrape that one if it runs. The
monitor process also limits `zodbrepl_node_lag_seconds` to the time for which the node has been
behind. The page does not remember that time: if a server cannot tell which transaction it lacks,
the page exports the time since the node's own last one.
"""


@functools.cache
def description() -> dict[str, Any]:
    """Return the OpenAPI document, made without a cluster.  Do not modify it."""
    app = Flask(__name__)
    for page in (machines, api, history, incident, backups, configuration, logs):
        app.register_blueprint(page.blueprint)
    return openapi.document(app)


def admin_api() -> str:
    """Return the page, in Markdown."""
    document = description()
    parts = [HEAD.format(about=document["info"]["description"]), "## Paths\n"]
    for path, item in document["paths"].items():
        for method in ("get", "post"):
            if method in item:
                parts += _route(path, method, item[method], item.get("parameters", []))
    metrics = [
        (
            f"`{each.name}`",
            "counter" if each.is_counter else "gauge",
            ", ".join(f"`{label}`" for label in each.labels),
            each.help,
        )
        for each in SNAPSHOT_METRICS
    ]
    parts += [
        BEGIN,
        METRICS,
        _table(("metric", "type", "labels", "meaning"), metrics),
        "## Objects\n",
    ]
    for name, schema in document["components"]["schemas"].items():
        parts += _object(name, schema)
    return "\n".join(parts)


def _route(
    path: str, method: str, said: dict[str, Any], parameters: Sequence[dict[str, Any]]
) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n"
    if said.get("security") == []:
        who = "No login needed"
    else:
        who = "Operators only" if "403" in said["responses"] else "Needs a token or a session"
    yield f"{said['summary']}. {who}.\n"
    rows = [
        (f"`{each['name']}`", each["in"], _kind(each["schema"]), each["description"])
        for each in (*parameters, *said.get("parameters", []))
    ]
    if rows:
        yield _table(("parameter", "in", "kind", "meaning"), rows)
    if "requestBody" in said:
        yield f"Body: {_kind(said['requestBody']['content']['application/json']['schema'])}\n"
    yield _table(
        ("status", "body", "when"),
        [
            (code, _content(response["content"]), response["description"])
            for code, response in sorted(said["responses"].items())
        ],
    )


def _content(content: dict[str, Any]) -> str:
    [(media, described)] = content.items()
    kind = _kind(described["schema"])
    return kind if media.startswith("application/") else f"`{media}`"


def _object(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{schema['description']}\n"
    if "enum" in schema:
        yield f"One of: {', '.join(f'`{each}`' for each in schema['enum'])}.\n"
        return
    needed = schema.get("required", [])
    yield _table(
        ("field", "kind", "meaning"),
        [
            (
                f"`{field}`",
                _kind(each) + ("" if field in needed else ", optional"),
                each.get("description", ""),
            )
            for field, each in schema["properties"].items()
        ],
    )


def _kind(schema: Schema) -> str:
    """Return the kind of a value, in a word or a link."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "type" not in schema:
        return "any value"
    if schema["type"] == "array":
        return f"list of {_kind(schema['items'])}"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(kinds)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
