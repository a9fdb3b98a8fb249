"""What load balancers and monitoring ask, and the description itself, as OpenAPI has it."""

from __future__ import annotations

from typing import Any

from indico_zodbrepl.admin.api.answers import Health, Serving
from indico_zodbrepl.admin.api.metrics import CONTENT_TYPE
from indico_zodbrepl.admin.api.responses import ACCOUNTS, HOST, NOT_LOGGED_IN, Responses, Route
from indico_zodbrepl.admin.api.schemas import Schema

NODE = {"name": "node", "in": "query", "description": "Look at this node only.",
        "schema": {"type": "string"}}
LAG = {"name": "lag", "in": "query",
       "description": "Seconds of lag above which a node does not serve, nor one whose lag is not "
                      "known; without it whatever the lag.",
       "schema": {"type": "number", "minimum": 0}}
OLD = "also when the page's own look is older than five seconds."
NO_NODE = "There is no node of that name."


def paths(told: Responses, status: Schema) -> dict[str, Route]:
    """The paths that only show.

    Args:
        status: the schema of the whole situation.
    """
    def public(said: str, kind: type, parameters: list[Any], yes_no: tuple[str, str],
               more: dict[int, str]) -> Route:
        yes, no = yes_no
        return {"get": {"summary": said, "security": [], "parameters": parameters, "responses": {
            "200": told.answer(kind, yes), "503": told.answer(kind, no),
            **told.problems({400: HOST, **more})}}}

    return {
        "/health": public(
            "The cluster's state", Health, [],
            ("Healthy or degraded: Indico works.", f"Down or unknown; {OLD}"), {}),
        "/primary": public(
            "Whether there is a primary", Serving, [NODE],
            ("The one node that takes writes is there and in line; with `node`, it is that one.",
             f"No node is; {OLD}"),
            {404: NO_NODE}),
        "/replica": public(
            "Whether there is a replica", Serving, [NODE, LAG],
            ("A node follows the primary, is in line, and within the lag; with `node`, that one.",
             f"No node does; {OLD}"),
            {400: f"{HOST[:-1]}; or lag is no number.", 404: NO_NODE}),
        "/metrics": {"get": {
            "summary": "Figures for Prometheus", "security": [], "responses": {
                "200": {"description": "In the text format.",
                        "content": {CONTENT_TYPE: {"schema": {"type": "string"}}}},
                **told.problems({400: HOST})}}},
        "/api/status": {"get": {
            "summary": "The whole situation", "responses": {
                "200": told.answer(status, "As `bin/zodbrepl status --json` has it, and more."),
                **told.problems({400: HOST, 401: NOT_LOGGED_IN,
                            503: f"There was no look at the cluster yet. {ACCOUNTS}"})}}},
        "/api/openapi.json": {"get": {
            "summary": "This description", "responses": {
                "200": {"description": "OpenAPI 3.1.", "content": {"application/json": {
                    "schema": {"type": "object"}}}},
                **told.problems({400: HOST, 401: NOT_LOGGED_IN, 503: ACCOUNTS})}}},
    }
