"""Views for programs: health and roles for load balancers, metrics, the status as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable

from flask import Blueprint, Response, current_app, jsonify, request
from flask.typing import ResponseReturnValue

from indico_zodbrepl.admin.access.gate import public
from indico_zodbrepl.admin.api import openapi, serving
from indico_zodbrepl.admin.api.answers import Health, Serving, Status
from indico_zodbrepl.admin.api.exchange import problem, reply
from indico_zodbrepl.admin.api.openapi import describe, query
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.monitor import metrics as figures
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.monitor.watcher import TimestampedSnapshot

PATIENCE = 1.0
"""Seconds that programs wait for the first snapshot."""
BLIND = "The admin page has no current snapshot of the cluster."
OLD = "The page's snapshot is older than five seconds."
NO_NODE = "There is no node of that name."
NODE = query("node", "Check only this node.")
LAG = query(
    "lag",
    "Maximal lag in seconds. A node with more, or with unknown lag, does not serve. Without it the "
    "lag does not matter.",
    {"type": "number", "minimum": 0},
)

blueprint = Blueprint("machines", __name__)


@blueprint.get("/api/status")
@describe(
    {200: (Status, "As `bin/zodbrepl status --json`, with more keys.")},
    {503: "There is no snapshot of the cluster yet."},
)
def status() -> ResponseReturnValue:
    """Return the state of the cluster."""
    found = here().context()
    sighting = found["sighting"]
    return jsonify(
        {
            **sighting.snapshot.to_json(),
            "age": round(sighting.age, 3),
            "stale": sighting.stale,
            "shared": sighting.shared,
            "next_steps": found["procedures"],
        }
    )


@blueprint.get("/api/openapi.json")
@describe({200: ({"type": "object"}, "OpenAPI 3.1.")})
def description() -> ResponseReturnValue:
    """Return this description."""
    return jsonify(openapi.document(current_app))


@blueprint.get("/health")
@public
@describe(
    {
        200: (Health, "Healthy or degraded: Indico works."),
        503: (Health, f"Split brain, down or unknown. {OLD}"),
    }
)
def health() -> ResponseReturnValue:
    """State of the cluster.

    A stale snapshot is unknown: a stopped monitor must not report health.
    """
    sighting = _latest()
    age = None if sighting is None else round(sighting.age, 3)
    if sighting is None or sighting.stale:
        unknown = State.UNKNOWN
        return reply(Health(unknown, unknown.exit_code, BLIND, None, None, age), 503)
    found = sighting.snapshot
    return reply(
        Health(
            found.state,
            found.state.exit_code,
            found.sentence,
            found.primary,
            found.taken_at,
            age,
        ),
        200 if found.state.works else 503,
    )


@blueprint.get("/primary")
@public
@describe(
    {
        200: (
            Serving,
            "Exactly one node accepts writes, with the cluster's history; with `node`, that node.",
        ),
        503: (Serving, f"There is no such node. {OLD}"),
    },
    {404: NO_NODE},
    parameters=(NODE,),
)
def primary() -> ResponseReturnValue:
    """Check for a primary."""
    name = request.args.get("node")
    return _serving(name, lambda snapshot: serving.primaries(snapshot, name))


@blueprint.get("/replica")
@public
@describe(
    {
        200: (
            Serving,
            "A node follows the primary within the lag; with `node`, that node.",
        ),
        503: (Serving, f"There is no such node. {OLD}"),
    },
    {400: "`lag` is not a number of seconds.", 404: NO_NODE},
    parameters=(NODE, LAG),
)
def replica() -> ResponseReturnValue:
    """Check for a replica."""
    name, lag = request.args.get("node"), request.args.get("lag")
    most = None
    if lag is not None:
        most = _seconds(lag)
        if most is None:
            return problem(
                400,
                "lag is not a number of seconds",
                f"it is {lag[:40]!r}",
                "use for example /replica?lag=5",
            )
    return _serving(name, lambda snapshot: serving.replicas(snapshot, most, name))


@blueprint.get("/metrics")
@public
@describe({200: ({"type": "string"}, "In the text format.")}, content_type=figures.CONTENT_TYPE)
def metrics() -> ResponseReturnValue:
    """Metrics for Prometheus."""
    exposition = figures.exposition(figures.SNAPSHOT_METRICS, figures.of_sighting(_latest()))
    return Response(exposition, content_type=figures.CONTENT_TYPE)


def _latest() -> TimestampedSnapshot | None:
    return here().watcher.latest(PATIENCE)


def _serving(name: str | None, fit: Callable[[Snapshot], serving.Fit]) -> ResponseReturnValue:
    """Answer with the nodes that serve, 200 or 503; by a stale snapshot none does."""
    cluster, sighting = here().cluster, _latest()
    names = [node.name for node in cluster.nodes]
    if name is not None and name not in names:
        return problem(404, f"there is no node {name[:40]!r}", f"nodes: {', '.join(names)}")
    age = None if sighting is None else round(sighting.age, 3)
    if sighting is None or sighting.stale:
        return reply(Serving(False, (), BLIND, {}, age), 503)
    found = fit(sighting.snapshot)
    serves = bool(found.nodes)
    return reply(
        Serving(serves, found.nodes, found.why, found.reasons, age), 200 if serves else 503
    )


def _seconds(text: str) -> float | None:
    """Return the number of seconds; None if the text is not a finite number from 0."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
