"""The Flask application: every page is a view of the watcher's last snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flask import Flask, render_template
from flask.typing import ResponseReturnValue

from indico_zodbrepl.admin import filters, security
from indico_zodbrepl.admin.pages import data, journal, machines, operations, overview, salvage
from indico_zodbrepl.admin.site import EXTENSION, Site
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.watcher import Watcher

PAGES = (overview, operations, salvage, journal, data, machines)


def create_app(cluster: Cluster, watcher: Watcher, home: Path) -> Flask:
    """The admin page of a cluster; arguments as the attributes of ``Site``."""
    app = Flask(__name__)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.extensions[EXTENSION] = Site(cluster, watcher, home)
    security.protect(app, cluster.admin)
    filters.register(app)
    app.jinja_env.globals["cluster"] = cluster
    for page in PAGES:
        app.register_blueprint(page.blueprint)

    @app.errorhandler(400)
    @app.errorhandler(404)
    @app.errorhandler(405)
    @app.errorhandler(500)
    @app.errorhandler(503)
    def error(problem: Any) -> ResponseReturnValue:
        page = render_template("error.html", problem=problem)
        return page, problem.code, dict(_allowed(problem))

    return app


def _allowed(problem: Any) -> list[tuple[str, str]]:
    methods = getattr(problem, "valid_methods", None)
    return [("Allow", ", ".join(methods))] if methods else []
