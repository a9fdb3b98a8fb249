"""What programs read: health for load balancers and monitoring, the status as JSON."""

from __future__ import annotations

from flask import Blueprint, jsonify
from flask.typing import ResponseReturnValue

from indico_zodbrepl.admin.access import public
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.monitor.snapshot import State
from indico_zodbrepl.monitor.watcher import Sighting

blueprint = Blueprint("machines", __name__)


@blueprint.get("/api/status")
def status() -> ResponseReturnValue:
    found = here().context()
    sighting = found["sighting"]
    return jsonify({**sighting.snapshot.to_json(), "age": round(sighting.age, 3),
                    "stale": sighting.stale, "next_steps": found["procedures"]})


@blueprint.get("/health")
@public
def health() -> ResponseReturnValue:
    return health_of(here().watcher.latest())


def health_of(sighting: Sighting | None) -> ResponseReturnValue:
    """For monitoring: 200 while the cluster is healthy or degraded, else 503; the same as JSON.

    A stale snapshot counts as unknown: a monitor that stopped looking must not report health.
    """
    if sighting is None or sighting.stale:
        return jsonify({"state": State.UNKNOWN, "code": State.UNKNOWN.exit_code,
                        "sentence": "The admin page's monitor takes no snapshots."}), 503
    snapshot = sighting.snapshot
    works = snapshot.state in (State.HEALTHY, State.DEGRADED)
    return jsonify({"state": snapshot.state, "code": snapshot.state.exit_code,
                    "sentence": snapshot.sentence, "primary": snapshot.primary,
                    "taken_at": snapshot.taken_at, "age": round(sighting.age, 3)}), \
        200 if works else 503
