"""What programs read: health and roles for load balancers, metrics, the status as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable

from flask import Blueprint, Response, jsonify, request
from flask.typing import ResponseReturnValue

from indico_zodbrepl.admin.access import public
from indico_zodbrepl.admin.api import metrics as figures
from indico_zodbrepl.admin.api import serving
from indico_zodbrepl.admin.api.answers import Health, Serving
from indico_zodbrepl.admin.api.description import description
from indico_zodbrepl.admin.api.problems import problem
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.monitor.watcher import Sighting

PATIENCE = 1.0
"""Seconds that programs wait for the very first look."""
BLIND = "The admin page's monitor takes no snapshots."

blueprint = Blueprint("machines", __name__)


@blueprint.get("/api/status")
def status() -> ResponseReturnValue:
    found = here().context()
    sighting = found["sighting"]
    return jsonify({**sighting.snapshot.to_json(), "age": round(sighting.age, 3),
                    "stale": sighting.stale, "next_steps": found["procedures"]})


@blueprint.get("/api/openapi.json")
def openapi() -> ResponseReturnValue:
    return jsonify(description())


@blueprint.get("/health")
@public
def health() -> ResponseReturnValue:
    return health_of(here().watcher.latest(PATIENCE))


@blueprint.get("/primary")
@public
def primary() -> ResponseReturnValue:
    name = request.args.get("node")
    return _serving(name, lambda snapshot: serving.primaries(snapshot, name))


@blueprint.get("/replica")
@public
def replica() -> ResponseReturnValue:
    name, lag = request.args.get("node"), request.args.get("lag")
    most = None
    if lag is not None:
        most = _seconds(lag)
        if most is None:
            return problem(400, "lag is no number of seconds", f"it is {lag[:40]!r}",
                           "for example /replica?lag=5")
    return _serving(name, lambda snapshot: serving.replicas(snapshot, most, name))


@blueprint.get("/metrics")
@public
def metrics() -> ResponseReturnValue:
    return Response(figures.exposition(here().watcher.latest(PATIENCE)),
                    content_type=figures.CONTENT_TYPE)


def health_of(sighting: Sighting | None) -> ResponseReturnValue:
    """For monitoring: 200 while the cluster is healthy or degraded, else 503; the same as JSON.

    A stale snapshot counts as unknown: a monitor that stopped looking must not report health.
    """
    if sighting is None or sighting.stale:
        return jsonify(Health(State.UNKNOWN, State.UNKNOWN.exit_code, BLIND, None, None,
                              None if sighting is None else round(sighting.age, 3))), 503
    snapshot = sighting.snapshot
    works = snapshot.state in (State.HEALTHY, State.DEGRADED)
    return jsonify(Health(snapshot.state, snapshot.state.exit_code, snapshot.sentence,
                          snapshot.primary, snapshot.taken_at, round(sighting.age, 3))), \
        200 if works else 503


def _serving(name: str | None,
             fit: Callable[[Snapshot], serving.Fit]) -> ResponseReturnValue:
    """Who serves by the last look, 200 or 503; by one that is stale nobody does."""
    cluster, sighting = here().cluster, here().watcher.latest(PATIENCE)
    names = [node.name for node in cluster.nodes]
    if name is not None and name not in names:
        return problem(404, f"there is no node {name[:40]!r}", f"there are: {', '.join(names)}")
    if sighting is None or sighting.stale:
        age = None if sighting is None else round(sighting.age, 3)
        return jsonify(Serving(False, (), BLIND, {}, age)), 503
    found = fit(sighting.snapshot)
    return jsonify(Serving(bool(found.nodes), found.nodes, found.why, found.reasons,
                           round(sighting.age, 3))), 200 if found.nodes else 503


def _seconds(text: str) -> float | None:
    """A number of seconds, not negative; None when it is none."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
