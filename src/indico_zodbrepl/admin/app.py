"""The Flask application: every page is a view of the watcher's last snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flask import Flask, abort, jsonify, render_template
from flask.typing import ResponseReturnValue

from indico_zodbrepl.admin import filters, logs, security
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.advice import advise
from indico_zodbrepl.monitor.snapshot import State
from indico_zodbrepl.monitor.watcher import Sighting, Watcher


def create_app(cluster: Cluster, watcher: Watcher, home: Path) -> Flask:
    """The admin page of a cluster.

    Args:
        cluster: whom it shows.
        watcher: a started watcher of that cluster; requests never probe by themselves, so a
            frozen server delays none of them.
        home: folder of the installation, where commands are typed.
    """
    app = Flask(__name__)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    security.protect(app, cluster.admin)
    filters.register(app)

    def context() -> dict[str, Any]:
        sighting = watcher.latest()
        if sighting is None:
            abort(503, "No snapshot of the cluster could be taken yet; see the admin page's log.")
        return {"cluster": cluster, "sighting": sighting, "snapshot": sighting.snapshot,
                "procedures": advise(cluster, sighting.snapshot, home), "home": home,
                "data_files": backend_of(cluster).data_files}

    @app.get("/")
    def overview() -> str:
        return render_template("overview.html", **context())

    @app.get("/node/<name>")
    def node(name: str) -> str:
        try:
            program = cluster.node(name).program
        except KeyError:
            abort(404, "No node of that name.")
        found = context()
        return render_template("node.html", node=found["snapshot"].node(name),
                               log=logs.tail(Layout(cluster).program_log(program)), **found)

    @app.get("/api/status")
    def api_status() -> ResponseReturnValue:
        found = context()
        sighting = found["sighting"]
        return jsonify({**sighting.snapshot.to_json(), "age": round(sighting.age, 3),
                        "stale": sighting.stale, "next_steps": found["procedures"]})

    @app.get("/health")
    def health() -> ResponseReturnValue:
        return health_of(watcher.latest())

    @app.errorhandler(400)
    @app.errorhandler(404)
    @app.errorhandler(405)
    @app.errorhandler(500)
    @app.errorhandler(503)
    def error(problem: Any) -> ResponseReturnValue:
        page = render_template("error.html", cluster=cluster, problem=problem)
        return page, problem.code, dict(_allowed(problem))

    return app


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


def _allowed(problem: Any) -> list[tuple[str, str]]:
    methods = getattr(problem, "valid_methods", None)
    return [("Allow", ", ".join(methods))] if methods else []
