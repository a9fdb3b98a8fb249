"""The Flask application: every page is a view of the watcher's last snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from flask import Flask, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _lazy
from flask_wtf.csrf import CSRFError
from werkzeug.datastructures import ImmutableDict

from indico_zodbrepl.admin import filters, languages, security
from indico_zodbrepl.admin.access import gate, login, sessions, throttle
from indico_zodbrepl.admin.api import problems
from indico_zodbrepl.admin.pages import (
    access,
    api,
    data,
    journal,
    machines,
    operations,
    overview,
    salvage,
)
from indico_zodbrepl.admin.site import EXTENSION, Site
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.monitor.watcher import Watcher

PAGES = (overview, operations, salvage, journal, data, machines, api, access)
STATUS = {ExitCode.REFUSED: 409, ExitCode.TIMED_OUT: 504}
"""The HTTP status of an operator's error; 503 for all others."""

ENDS = {
    400: (_lazy("Bad request"), _lazy("What the browser sent can't be understood.")),
    401: (_lazy("Unauthorized"), _lazy("You have to log in first.")),
    403: (_lazy("Forbidden"), _lazy("You may not do this.")),
    404: (_lazy("Not found"), _lazy("There is no such page.")),
    405: (_lazy("Method not allowed"), _lazy("The page can't be asked in this way.")),
    409: (_lazy("Conflict"), _lazy("The situation has changed meanwhile.")),
    413: (_lazy("Too much was sent"), _lazy("What was sent is larger than any form here.")),
    429: (_lazy("Too many requests"), _lazy("Wait a while, then try again.")),
    500: (_lazy("Internal error"), _lazy("The admin page has failed; its log says how.")),
    503: (_lazy("Service unavailable"), _lazy("Try again in a moment."))}
"""What a page with that status says, without a description of its own."""

LAST_TOLD = "zodbrepl-last-told"


class _Page(Flask):
    """Answers no OPTIONS by itself."""

    default_config = ImmutableDict({**Flask.default_config, "PROVIDE_AUTOMATIC_OPTIONS": False})


def create_app(cluster: Cluster, watcher: Watcher, home: Path) -> Flask:
    """The admin page of a cluster; arguments as the attributes of ``Site``.

    Raises OperatorError when the key of its sessions can't be read or written.
    """
    app = _Page(__name__)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.policies["ext.i18n.trimmed"] = True
    app.extensions[EXTENSION] = Site(cluster, watcher, home)
    languages.install(app)
    security.protect(app, cluster.admin)
    sessions.install(app, cluster)
    gate.install(app)
    filters.register(app)
    app.jinja_env.globals.update(cluster=cluster, home=home, navigation=_navigation)
    for page in PAGES:
        app.register_blueprint(page.blueprint)
    throttle.install(app, "access.log_in", login.too_many)
    _tell_errors(app)
    return app


def _navigation() -> list[tuple[str, str]]:
    """Titles and endpoints."""
    return [(_("Overview"), "overview.show"), (_("Operations"), "operations.show"),
            (_("Journal"), "journal.show"), (_("Data"), "data.show")]


def _tell_errors(app: Flask) -> None:

    @app.errorhandler(400)
    @app.errorhandler(401)
    @app.errorhandler(403)
    @app.errorhandler(404)
    @app.errorhandler(405)
    @app.errorhandler(409)
    @app.errorhandler(413)
    @app.errorhandler(429)
    @app.errorhandler(500)
    @app.errorhandler(503)
    def error(problem: Any) -> ResponseReturnValue:
        if problem.response is not None:
            return cast(ResponseReturnValue, problem.response)
        notice, usual = ENDS[problem.code]
        own = problem.description != type(problem).description
        return _told(problem.code, str(notice), problem.description if own else str(usual), "",
                     dict(_more(problem)))

    @app.errorhandler(CSRFError)
    def not_our_form(problem: CSRFError) -> ResponseReturnValue:
        return _told(400, _("This form can't be used, so nothing was done"), problem.description,
                     _("it may be older than your session: open the page that it was on again, "
                       "and see that the browser takes cookies"), {})

    @app.errorhandler(OperatorError)
    def operator_error(problem: OperatorError) -> ResponseReturnValue:
        if str(problem) != app.extensions.get(LAST_TOLD):  # pages ask again each second
            app.logger.error("%s %s: %s", request.method, request.path, problem)
        app.extensions[LAST_TOLD] = str(problem)
        return _told(STATUS.get(problem.exit_code, 503), problem.notice, problem.detail,
                     problem.hint, {})


def _told(status: int, notice: str, detail: str, hint: str,
          headers: dict[str, str]) -> ResponseReturnValue:
    if problems.is_for_programs(request.path):
        return problems.problem(status, notice, detail, hint, headers)
    page = render_template("error.html", notice=notice, detail=detail, hint=hint)
    return page, status, headers


def _more(problem: Any) -> list[tuple[str, str]]:
    methods = getattr(problem, "valid_methods", None)
    found = [("Allow", ", ".join(sorted(methods)))] if methods else []
    if problem.code == 401:
        found.append(("WWW-Authenticate", 'Bearer realm="zodbrepl"'))
    return found
