"""Assemble the report page from the sections of its runs."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, Undefined
from markupsafe import Markup

from indico_zodbrepl.bench.report import figures, sentences, special, tables, wording
from indico_zodbrepl.bench.report.drawing import Drawn
from indico_zodbrepl.bench.report.sentences import Comparison, Sentence
from indico_zodbrepl.bench.report.subject import Subject, subject
from indico_zodbrepl.bench.report.tables import Table
from indico_zodbrepl.bench.results import Measurement, Run

FEW = 12
"""Up to this many comparisons are listed; more are summarised, with details on demand."""


@dataclasses.dataclass(frozen=True)
class Section:
    """A run on the page.  If ``problem`` is set, everything else is empty."""

    run: Run
    anchor: str
    problem: str = ""
    title: str = ""
    subject: Subject | None = None
    notes: Sequence[Sentence] = ()
    findings: Sequence[Sentence] = ()
    further: Sequence[Sentence] = ()
    drawn: Sequence[Drawn] = ()
    undrawn: Sequence[str] = ()
    tables: Sequence[Table] = ()
    failed: Sequence[Measurement] = ()


def section(run: Run, anchor: str) -> Section:
    """Return a run with figures, tables and sentences, or the reason it cannot be used.

    Args:
        anchor: its id in the page.
    """
    if run.problem:
        return Section(run, anchor, run.problem)
    try:
        about = subject(run)
    except (ValueError, TypeError) as error:
        return Section(run, anchor, f"its results can't be used: {error}")
    drawn, undrawn = figures.of(about)
    found = sentences.all_of(about)
    findings, further = _told(about, found)
    return Section(
        run,
        anchor,
        "",
        about.title,
        about,
        list(sentences.of_run(about)),
        findings,
        further,
        drawn,
        undrawn,
        tables.of(about),
        run.failed,
    )


def html(sections: Sequence[Section], pictures: Mapping[str, Sequence[tuple[Drawn, str]]]) -> str:
    """Return the self-contained page.

    Args:
        pictures: figures by the anchor of their section, each with its ``<svg>`` element.
    """
    environment = Environment(
        loader=PackageLoader("indico_zodbrepl.bench.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "moment": moment,
        "json": _json,
        "bytes_of": wording.bytes_of,
        "number": wording.number,
        "case": _case,
    }
    environment.globals |= {
        "numbers": wording.numbers,
        "mapping": wording.mapping,
        "isnumber": lambda value: wording.drawable(value) is not None,
    }
    environment.tests["on_another_machine_than"] = _on_another_machine
    usable = [each for each in sections if not each.problem]
    shown = {
        anchor: [(each, Markup(svg)) for each, svg in found]  # noqa: S704 - our own drawing
        for anchor, found in pictures.items()
    }
    return environment.get_template("report.html").render(
        sections=sections,
        pictures=shown,
        usable=usable,
        first=usable[0].run if usable else None,
        quick=any(each.run.settings.get("quick") for each in usable),
        versions={name: text for each in usable for name, text in each.run.versions.items()},
    )


def moment(seconds: float) -> str:
    """Format a time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _on_another_machine(run: Run, first: Run) -> bool:
    return any(
        run.environment.get(name) != first.environment.get(name)
        for name in ("cpu", "cores", "system")
    )


def _told(about: Subject, found: Sequence[Comparison]) -> tuple[list[Sentence], list[Sentence]]:
    each = [sentences.said(about, one) for one in found] + list(sentences.best(about))
    own = list(special.of(about))
    if len(each) <= FEW:
        return own + each, []
    return own + list(sentences.in_sum(about, found)), each


def _json(value: Any) -> str:
    if isinstance(value, Undefined):
        return "unknown"
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value


def _case(made: Measurement) -> str:
    return wording.case(made.test, made.parameters)
