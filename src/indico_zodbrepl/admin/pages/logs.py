"""Views of the logs of all hosts' programs, for operators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from flask import Blueprint, Response, abort, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import gettext
from flask_babel import lazy_gettext as _
from flask_wtf import FlaskForm
from wtforms import BooleanField, SelectField, StringField
from wtforms.fields import SelectChoice
from wtforms.validators import Length

from indico_zodbrepl.admin.access.gate import why_not_see_contents
from indico_zodbrepl.admin.api.answers import LogEnd
from indico_zodbrepl.admin.api.exchange import problem, reply
from indico_zodbrepl.admin.api.openapi import describe, query
from indico_zodbrepl.admin.filters import sentence
from indico_zodbrepl.admin.forms import why_wrong
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.logs_interface import LogPart, Logs

MOST_CHARACTERS = 200
FILTERS = (
    query("host", "The host of the program; by default that of the page."),
    query("program", "Whose log; by default that of the first program by name."),
    query(
        "text",
        "Only lines with this text, regardless of case.",
        {"type": "string", "maxLength": MOST_CHARACTERS},
    ),
    query("warnings", "Only warnings and errors.", {"type": "boolean", "default": False}),
)

blueprint = Blueprint("logs", __name__)


class LogForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """Which lines of which log; sent by GET, so that the result has an address.

    On several hosts the value of ``program`` is ``HOST/PROGRAM``.
    """

    class Meta:
        csrf = False

    program = SelectField(_("Program"))
    text = StringField(_("Text"), [Length(max=MOST_CHARACTERS)], default="")
    warnings = BooleanField(_("Only warnings and errors"))


@blueprint.get("/logs")
def show() -> ResponseReturnValue:
    if why_not_see_contents():
        return render_template("logs.html", why_not=_why_not()), 403
    programs, notes = _programs()
    form = LogForm(formdata=request.args)
    _offer(form, programs)
    found: LogPart | None = None
    wrong, code = "", 200
    if not any(programs.values()):
        wrong = (
            gettext("No host that answers has a log.")
            if here().cluster.hosts
            else gettext("There is no log on this host.")
        )
    elif not form.validate():
        code = 400
    else:
        try:
            found = _part(*_split(form.program.data), form)
        except OperatorError as error:
            wrong = _told(error)
    page = render_template(
        "logs.html",
        why_not="",
        form=form,
        chosen=_split(form.program.data or ""),
        found=found,
        notes=notes,
        problem=wrong,
        valid=code == 200,
    )
    return page, code


@blueprint.get("/logs/<program>.log")
@blueprint.get("/logs/<host>/<program>.log")
def download(program: str, host: str = "") -> Response:
    """Download the log of a program, secrets masked."""
    if why_not_see_contents():
        abort(403, _why_not())
    _check_host(host)
    try:
        if program not in _logs().programs(host):
            abort(404, gettext("There is no log of that name."))
        parts = _begun(_logs().whole(host, program))
    except OperatorError as error:
        abort(503, _told(error))
    made = Response(parts, mimetype="text/plain")
    name = f"{host}-{program}.log" if host else f"{program}.log"
    made.headers.set("Content-Disposition", "attachment", filename=name)
    return made


@blueprint.get("/api/logs")
@describe(
    {200: (LogEnd, "The lines.")},
    {
        400: "A parameter is invalid, or there is no such log.",
        403: "The token or session belongs to a viewer.",
        404: "There is no such host.",
        503: "The log cannot be read, or its host does not answer.",
    },
    parameters=FILTERS,
)
def end_of_log() -> ResponseReturnValue:
    """Read the newest lines of a program's log."""
    if why_not_see_contents():
        abort(403, _why_not())
    host = request.args.get("host") or here().cluster.here or ""
    _check_host(host)
    form = LogForm(formdata=request.args)
    try:
        names = _logs().programs(host)
        if not names:
            return reply(LogEnd(host or None, None, None, (), (), False))
        form.program.choices = [SelectChoice(name) for name in names]
        form.program.data = form.program.data or names[0]
        if not form.validate():
            return problem(400, "a parameter is invalid", why_wrong(form))
        found = _part(host, form.program.data, form)
    except OperatorError as error:
        return problem(503, error.notice, error.detail)
    return reply(
        LogEnd(
            host or None, form.program.data, str(found.path), tuple(names), found.lines, found.cut
        )
    )


def _logs() -> Logs:
    return host_of(here().cluster).logs()


def _check_host(host: str) -> None:
    """Abort the request with 404 unless a host has that name; without host sections none has."""
    if host not in ([each.name for each in here().cluster.hosts] or [""]):
        abort(404, gettext("There is no host of that name."))


def _programs() -> tuple[dict[str, list[str]], list[str]]:
    """Return the programs that have a log, by host, and why hosts do not tell theirs.

    This host comes first.
    """
    own = here().cluster.here or ""
    found, notes = {}, []
    answers = _logs().every()
    for host in sorted(answers, key=lambda name: (name != own, name)):
        answer = answers[host]
        if isinstance(answer, OperatorError):
            notes.append(_told(answer))
        else:
            found[host] = answer
    return found, notes


def _offer(form: LogForm, programs: dict[str, list[str]]) -> None:
    """Let the form choose from programs, by host; the first one is the default."""
    form.program.choices = [
        SelectChoice(f"{host}/{name}", name, optgroup=host) if host else SelectChoice(name)
        for host, names in programs.items()
        for name in names
    ]
    if not form.program.data and form.program.choices:
        form.program.data = form.program.choices[0].value


def _split(chosen: str) -> tuple[str, str]:
    """Return the host and the program of a value of the form."""
    host, _slash, program = chosen.rpartition("/")
    return host, program


def _part(host: str, program: str, form: LogForm) -> LogPart:
    return _logs().part(host, program, text=form.text.data or "", warnings=form.warnings.data)


def _begun(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Return parts of which the first is there: a host that is away has raised OperatorError."""
    first = next(parts, b"")
    return itertools.chain([first], parts)


def _told(error: OperatorError) -> str:
    text = sentence(error.notice)
    return f"{text}: {error.detail}" if error.detail else f"{text}."


def _why_not() -> str:
    return gettext("Only operators can see logs: they may name protected data.")
