"""The OpenAPI description and the page's metrics as a page of the reference.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from indico_zodbrepl.admin.api.description import description
from indico_zodbrepl.admin.api.schemas import Schema
from indico_zodbrepl.monitor.metrics import SNAPSHOT_METRICS

HEAD = """\
# The admin page for programs

{said}

The same as OpenAPI 3.1 is at `/api/openapi.json`; both, and the answers themselves, are held
against each other by tests. How to use `/primary` and `/replica`: [behind a load
balancer](../how-to/load-balancer.md).

    $ curl -s -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8100/api/operations?limit=1

This page is made from the description by `tools/reference`.
"""
BEGIN = """\
## Begin an operation, step by step

1. POST what is wanted to `/api/operations/plan`: the answer has the plan, what would be lost by it,
   and its `digest`; a refusal (409) has `findings`.
2. POST the same with the digest as `expected` to `/api/operations`: 202, and the job's address in
   `Location`. If the plan would be another one meanwhile, the job ends with exit code 8 and has
   done nothing.
3. GET that address until `state` is no longer `running`. The steps with their times, the figures
   and the command's output are in it.
4. An operation that is `stopped` is open: nothing else begins before a POST to its `/resume`,
   `/undo` or `/abandon`.

It is the command line's planner, executor, lock and journal: what is begun here is shown by
`bin/zodbrepl journal`, and the other way round.
"""
METRICS = """\
## Metrics

`/metrics` has these, from the page's own look each second. The [watching
program](../how-to/monitor.md#prometheus) has the same and more; scrape that one where it runs. It
also limits `zodbrepl_node_lag_seconds` to the time for which the node has been seen behind, which
the page does not remember: where a server can't tell which transaction it lacks, the page's figure
is the time since the node's own last one.
"""


def admin_api() -> str:
    """The page, in Markdown."""
    document = description()
    parts = [HEAD.format(said=document["info"]["description"]), "## Paths\n"]
    for path, item in document["paths"].items():
        for method in ("get", "post"):
            if method in item:
                parts += _route(path, method, item[method], item.get("parameters", []))
    parts += [BEGIN, METRICS, _table(("metric", "type", "labels", "meaning"), [
        (f"`{each.name}`", "counter" if each.is_counter else "gauge",
         ", ".join(f"`{label}`" for label in each.labels), each.help)
        for each in SNAPSHOT_METRICS]), "## Objects\n"]
    for name, schema in document["components"]["schemas"].items():
        parts += _object(name, schema)
    return "\n".join(parts)


def _route(path: str, method: str, said: dict[str, Any],
           parameters: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n"
    who = "anybody" if said.get("security") == [] else (
        "operators" if "403" in said["responses"] else "everybody with a token or a session")
    yield f"{said['summary']}. For {who}.\n"
    rows = [(f"`{each['name']}`", each["in"], _kind(each["schema"]), each["description"])
            for each in (*parameters, *said.get("parameters", []))]
    if rows:
        yield _table(("parameter", "in", "kind", "meaning"), rows)
    if "requestBody" in said:
        yield f"Body: {_kind(said['requestBody']['content']['application/json']['schema'])}\n"
    yield _table(("status", "body", "when"), [
        (code, _content(response["content"]), response["description"])
        for code, response in sorted(said["responses"].items())])


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
    needed = schema["required"]
    yield _table(("field", "kind", "meaning"), [
        (f"`{field}`", _kind(each) + ("" if field in needed else ", may be left out"),
         each.get("description", "")) for field, each in schema["properties"].items()])


def _kind(schema: Schema) -> str:
    """What a value is, in a word or a link."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_kind(schema['items'])}"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(kinds)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
