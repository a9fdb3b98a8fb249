"""What programs begin, follow and end, as OpenAPI describes it."""

from __future__ import annotations

from indico_zodbrepl.admin.api import bodies
from indico_zodbrepl.admin.api.answers import Begun, Operations, PlanAnswer, Work
from indico_zodbrepl.admin.api.responses import (
    ACCOUNTS,
    HOST,
    LOCATION,
    NO_JSON,
    NO_OPERATOR,
    NOT_LOGGED_IN,
    SESSION,
    TOO_LONG,
    UNKNOWN,
    Responses,
    Route,
)
from indico_zodbrepl.failover.operation import Outcome

LIMIT, MOST = 50, 200
"""Operations of a page: without a word, and at most."""
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"},
      "description": "Of a job, as Location gave it, or of an operation of the journal."}
FILTERS = [
    {"name": "limit", "in": "query", "description": "How many at most.",
     "schema": {"type": "integer", "minimum": 1, "maximum": MOST, "default": LIMIT}},
    {"name": "before", "in": "query", "schema": {"type": "string"},
     "description": "Only those that began before the one with this id: the page after it."},
    {"name": "operation", "in": "query", "schema": {"type": "string"},
     "description": "Only those of this kind, such as failover."},
    {"name": "node", "in": "query", "schema": {"type": "string"},
     "description": "Only those that are about this node or Indico instance, or act on it."},
    {"name": "outcome", "in": "query", "description": "Only those with this outcome.",
     "schema": {"type": "string", "enum": [each.value for each in Outcome]}},
    {"name": "actor", "in": "query", "schema": {"type": "string"},
     "description": "Only those that this one began."}]



def paths(told: Responses) -> dict[str, Route]:
    """The paths of operations."""
    def ending(how: str, said: str, reason: str) -> Route:
        return {"parameters": [ID], "post": {
            "summary": said, "operationId": how,
            "requestBody": told.body(bodies.EndBody, required=False),
            "responses": {
                "202": {**told.answer(Begun, "A job has begun that does so."), "headers": LOCATION},
                **told.problems({400: SESSION,
                            401: NOT_LOGGED_IN, 403: NO_OPERATOR,
                            404: UNKNOWN,
                            409: "It is not open, or a process works on it.",
                            413: TOO_LONG, 415: NO_JSON, 422: reason, 503: ACCOUNTS})}}}

    return {
        "/api/operations": {
            "get": {"summary": "The journal, and what runs", "parameters": FILTERS, "responses": {
                "200": told.answer(Operations, "The newest operations that fit, newest first."),
                **told.problems({400: f"{HOST[:-1]}; or a parameter is none.", 401: NOT_LOGGED_IN,
                            503: f"The journal can't be read. {ACCOUNTS}"})}},
            "post": {
                "summary": "Begin an operation", "operationId": "begin",
                "requestBody": told.body(bodies.BeginBody), "responses": {
                    "202": {**told.answer(Begun, "A job has begun; it makes the plan anew, and "
                                             "ends with exit code 8 if that is another one."),
                            "headers": LOCATION},
                    **told.problems({400: SESSION,
                                401: NOT_LOGGED_IN, 403: NO_OPERATOR,
                                409: "Refused: another operation is at work or open.",
                                413: TOO_LONG, 415: NO_JSON, 422: "A field can't be used.",
                                503: f"The command could not be started. {ACCOUNTS}"})}}},
        "/api/operations/plan": {"post": {
            "summary": "What an operation would do now", "operationId": "plan",
            "requestBody": told.body(bodies.PlanBody), "responses": {
                "200": told.answer(PlanAnswer, "The plan; nothing was changed."),
                **told.problems({400: SESSION,
                            401: NOT_LOGGED_IN,
                            409: "Refused: there is no plan; findings say what was looked at.",
                            413: TOO_LONG, 415: NO_JSON,
                            422: "A field can't be used, or names nothing that there is.",
                            503: f"Plans for others are being made, or the facts could not be "
                                 f"gathered. {ACCOUNTS}"})}}},
        "/api/operations/{id}": {"parameters": [ID], "get": {
            "summary": "A job or an operation", "responses": {
                "200": told.answer(Work, "How far it has come."),
                **told.problems({400: HOST, 401: NOT_LOGGED_IN, 404: UNKNOWN,
                            503: f"The journal can't be read. {ACCOUNTS}"})}}},
        "/api/operations/{id}/resume": ending(
            "resume", "Go on with an open operation", "A field can't be used."),
        "/api/operations/{id}/undo": ending(
            "undo", "Take an open operation back", "A field can't be used."),
        "/api/operations/{id}/abandon": ending(
            "abandon", "Leave an open operation as it stands",
            "A field can't be used, or there is no reason."),
    }
