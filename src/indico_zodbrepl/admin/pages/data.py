"""Views of database statistics and of benchmarks inside Indico."""

from __future__ import annotations

import time

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin import benchmarks as shown_benchmarks
from indico_zodbrepl.admin.access.gate import actor, operator, why_not_operate
from indico_zodbrepl.admin.filters import sentence
from indico_zodbrepl.admin.forms import BenchmarkForm, StatisticsForm
from indico_zodbrepl.admin.site import Site, here
from indico_zodbrepl.bench import results
from indico_zodbrepl.bench.results import Run
from indico_zodbrepl.bench.suites import in_app
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import statistics
from indico_zodbrepl.host.interface import host_of

MOST_ROWS = 15
MOST_RUNS = 20

blueprint = Blueprint("data", __name__)


def begun(kind: str, arguments: list[str]) -> ResponseReturnValue:
    """Start a command and show its page.  Raises OperatorError if one of its kind is running."""
    running = here().jobs.running(kind)
    if running is not None:
        raise OperatorError(
            _("This is running already"),
            f"{running.command}, {running.actor}",
            _("Wait until it has ended; its page shows the progress."),
            ExitCode.REFUSED,
        )
    job = here().jobs.run(arguments, actor())
    return redirect(url_for("operations.job", identifier=job.identifier), 303)


@blueprint.get("/data")
def show() -> ResponseReturnValue:
    return _statistics(_statistics_form())


@blueprint.post("/data")
@operator
def read() -> ResponseReturnValue:
    """Start to read the database."""
    form = _statistics_form()
    if not form.validate_on_submit():
        return _statistics(form), 400
    return begun("stats", form.arguments())


@blueprint.get("/data/benchmarks")
def benchmarks() -> ResponseReturnValue:
    return _benchmarks(_benchmark_form())


@blueprint.post("/data/benchmarks")
@operator
def measure() -> ResponseReturnValue:
    """Start a benchmark."""
    form = _benchmark_form()
    if not form.validate_on_submit():
        return _benchmarks(form), 400
    return begun("bench", form.arguments())


def _statistics_form() -> StatisticsForm:
    form = StatisticsForm()
    form.offer(_readable(here().cluster))
    return form


def _benchmark_form() -> BenchmarkForm:
    form = BenchmarkForm()
    form.offer([each.name for each in here().cluster.indico])
    return form


def _statistics(form: StatisticsForm) -> str:
    site = here()
    last, problem = None, None
    try:
        last = statistics.last(site.cluster)
    except OperatorError as error:
        problem = error
    where, why_not, sighting = None, why_not_operate(), site.watcher.latest()
    try:
        where = host_of(site.cluster).database(None)
    except OperatorError as error:
        why_not = why_not or _(
            "%(what)s: %(detail)s. Hint: %(hint)s",
            what=sentence(error.notice),
            detail=error.detail,
            hint=error.hint,
        )
    return render_template(
        "data.html",
        form=form,
        last=last,
        problem=problem,
        where=where,
        why_not=why_not,
        age=None if last is None else max(0.0, time.time() - last.at),
        history=statistics.HISTORY,
        snapshot=sighting and sighting.snapshot,
        archive=Layout(site.cluster).archive,
        running=site.jobs.running("stats"),
        most=MOST_ROWS,
        command=Commands(site.cluster, site.home).zodbrepl("stats"),
    )


def _benchmarks(form: BenchmarkForm) -> str:
    site = here()
    kept = results.read_all(site.cluster)
    runs = [shown_benchmarks.shown(run) for run in kept if shown_benchmarks.is_drawn(run)]
    name = request.args.get("run", "")
    chosen = next((each for each in runs if name in ("", each.run.name)), None)
    if chosen is None and name:
        abort(404, _("There is no run of that name."))
    why_not = why_not_operate()
    if not why_not and not site.cluster.indico:
        why_not = _("This cluster has no Indico instance to measure.")
    return render_template(
        "data_benchmarks.html",
        form=form,
        runs=runs,
        chosen=chosen,
        most=MOST_RUNS,
        throughput=shown_benchmarks.throughput(chosen.rows) if chosen else [],
        latency=shown_benchmarks.latency(chosen.rows) if chosen else None,
        changes=shown_benchmarks.changes(runs, chosen) if chosen and not chosen.problem else [],
        percentiles=shown_benchmarks.PERCENTILES,
        number=shown_benchmarks.number,
        why_not=why_not,
        writing=in_app.WRITE,
        running=site.jobs.running("bench"),
        others=_reports(site, kept),
        command=Commands(site.cluster, site.home).zodbrepl("bench", "in-app"),
    )


def _reports(site: Site, kept: list[Run]) -> dict[str, str]:
    """Return the command that makes the report, by folder of other benchmarks, newest first."""
    commands = Commands(site.cluster, site.home)
    names = dict.fromkeys(
        run.name.partition("/")[0] for run in kept if not shown_benchmarks.is_drawn(run)
    )
    return {
        name: commands.zodbrepl("bench", "report", str(Layout(site.cluster).bench / name))
        for name in list(names)[:MOST_RUNS]
    }


def _readable(cluster: Cluster) -> list[str]:
    """Return the nodes whose files can be read now."""
    found = []
    for node in cluster.nodes:
        try:
            host_of(cluster).database(node.name)
        except OperatorError:
            continue
        found.append(node.name)
    return found
