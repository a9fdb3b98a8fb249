"""The Flask application of the admin page, its error pages, and its HTTP server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from flask import Flask, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _lazy
from flask_wtf.csrf import CSRFError
from werkzeug.datastructures import ImmutableDict

from indico_zodbrepl.admin import filters, languages, topology
from indico_zodbrepl.admin.access import gate, login, sessions
from indico_zodbrepl.admin.api import exchange
from indico_zodbrepl.admin.forms import wrong_fields
from indico_zodbrepl.admin.loss_notice import loss_notice
from indico_zodbrepl.admin.pages import (
    access,
    api,
    automation,
    backups,
    configuration,
    data,
    history,
    incident,
    journal,
    logs,
    machines,
    operations,
    overview,
    recover,
    silences,
)
from indico_zodbrepl.admin.pause_notice import pause_notice
from indico_zodbrepl.admin.silence_view import (
    silence_of,
    silence_path,
    silences_without_alert,
    time_left,
)
from indico_zodbrepl.admin.site import EXTENSION, Site
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Admin
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.monitor import http_server
from indico_zodbrepl.monitor.watcher import Watcher

PAGES = (
    *(overview, operations, automation, silences, recover),
    *(journal, history, incident, data, backups, logs, configuration, machines, api, access),
)
STATUS = {ExitCode.REFUSED: 409, ExitCode.TIMED_OUT: 504}
"""The HTTP status of an OperatorError by its exit code; 503 for all others."""

ENDS = {
    400: (_lazy("Bad request"), _lazy("The request is malformed.")),
    401: (_lazy("Unauthorized"), _lazy("Log in first.")),
    403: (_lazy("Forbidden"), _lazy("You are not allowed to do this.")),
    404: (_lazy("Not found"), _lazy("There is no such page.")),
    405: (_lazy("Method not allowed"), _lazy("This page does not accept this method.")),
    409: (_lazy("Conflict"), _lazy("The situation has changed in the meantime.")),
    413: (_lazy("Request too large"), _lazy("The request is larger than any form of this page.")),
    429: (_lazy("Too many requests"), _lazy("Retry in a minute.")),
    500: (_lazy("Internal error"), _lazy("The admin page failed. Check its log.")),
    503: (_lazy("Service unavailable"), _lazy("Retry in a few seconds.")),
}
"""Title and default text of the error page of each status."""

LAST_TOLD = "zodbrepl-last-told"
THREADS = gate.PLACES + gate.OF_STRANGERS + 4
"""The last ones are left for monitoring systems, style sheets and refusals."""
MOST_BYTES = 256 * 1024
"""Longest request body; waitress stores it on disk before the page reads it."""


class _Page(Flask):
    """A Flask application that does not answer OPTIONS automatically."""

    default_config = ImmutableDict({**Flask.default_config, "PROVIDE_AUTOMATIC_OPTIONS": False})


def create_app(cluster: Cluster, watcher: Watcher, home: Path) -> Flask:
    """Return the admin page of a cluster; arguments as the attributes of ``Site``.

    Raises OperatorError if the key of its sessions cannot be read or written.
    """
    app = _Page(__name__)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.policies["ext.i18n.trimmed"] = True
    app.extensions[EXTENSION] = Site(cluster, watcher, home)
    languages.install(app)
    sessions.install(app, cluster)
    on = cluster.admin.on
    gate.install(app, cluster.admin, None if on is None else cluster.host(on).address)
    filters.register(app)
    app.jinja_env.globals.update(
        cluster=cluster,
        home=home,
        navigation=_navigation,
        loss_notice=loss_notice,
        silence_of=silence_of,
        silence_path=silence_path,
        silences_without_alert=silences_without_alert,
        time_left=time_left,
        pause_notice=pause_notice,
        wrong_fields=wrong_fields,
        sign=topology.sign,
    )
    for page in PAGES:
        app.register_blueprint(page.blueprint)
    login.limit_failures(app, "access.log_in")
    _handle_errors(app)
    return app


def _navigation() -> list[tuple[str, str, str]]:
    """Return titles, endpoints, and the keys that open them after ``g``."""
    return [
        (_("Overview"), "overview.show", "o"),
        (_("Operations"), "operations.show", "r"),
        (_("Journal"), "journal.show", "j"),
        (_("History"), "history.show", "h"),
        (_("Data"), "data.show", "d"),
        (_("Logs"), "logs.show", "l"),
        (_("Configuration"), "configuration.show", "c"),
    ]


def _handle_errors(app: Flask) -> None:

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
        return _answer(
            problem.code,
            str(notice),
            problem.description if own else str(usual),
            "",
            dict(_more(problem)),
        )

    @app.errorhandler(CSRFError)
    def not_our_form(problem: CSRFError) -> ResponseReturnValue:
        return _answer(
            400,
            _("Invalid form; nothing was done"),
            problem.description,
            _(
                "it may be older than your session: reload its page, and check that the browser "
                "accepts cookies"
            ),
            {},
        )

    @app.errorhandler(OperatorError)
    def operator_error(problem: OperatorError) -> ResponseReturnValue:
        if str(problem) != app.extensions.get(LAST_TOLD):  # pages refresh each second
            app.logger.error("%s %s: %s", request.method, request.path, problem)
        app.extensions[LAST_TOLD] = str(problem)
        return _answer(
            STATUS.get(problem.exit_code, 503), problem.notice, problem.detail, problem.hint, {}
        )


def _answer(
    status: int, notice: str, detail: str, hint: str, headers: dict[str, str]
) -> ResponseReturnValue:
    if exchange.is_for_programs(request.path):
        return exchange.problem(status, notice, detail, hint, headers)
    page = render_template("error.html", notice=notice, detail=detail, hint=hint)
    return page, status, headers


def _more(problem: Any) -> list[tuple[str, str]]:
    methods = getattr(problem, "valid_methods", None)
    found = [("Allow", ", ".join(sorted(methods)))] if methods else []
    if problem.code == 401:
        found.append(("WWW-Authenticate", 'Bearer realm="zodbrepl"'))
    if getattr(problem, "retry_after", None):
        found.append(("Retry-After", str(problem.retry_after)))
    return found


def listen(page: Flask, admin: Admin) -> Any:
    """Return a listening server; its ``run`` serves.

    Paths work with and without the prefix of the public URL, for proxies and tunnels.  Only the
    trusted proxy's X-Forwarded-For and X-Forwarded-Proto are used; all other forwarding headers are
    dropped.  Raises OSError if the address cannot be bound.
    """
    trusted: dict[str, Any] = (
        {}
        if admin.trusted_proxy is None
        else {
            "trusted_proxy": admin.trusted_proxy,
            "trusted_proxy_count": 1,
            "trusted_proxy_headers": {"x-forwarded-for", "x-forwarded-proto"},
        }
    )
    return http_server.listen(
        page,
        admin.host,
        admin.port,
        threads=THREADS,
        url_prefix=admin.path_prefix,
        max_request_body_size=MOST_BYTES,
        clear_untrusted_proxy_headers=True,
        **trusted,
    )
