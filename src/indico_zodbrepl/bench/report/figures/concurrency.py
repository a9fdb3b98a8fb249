"""zodbshootout: how the rate grows with those who work at once, a line for each storage."""

from __future__ import annotations

from collections.abc import Iterator

from .. import look, wording
from ..details import number
from ..drawing import Drawn
from ..subject import Subject
from .generic import logarithmic


def rates(subject: Subject) -> Iterator[Drawn]:
    """The rate by concurrency: panels of tests, a figure for each count of objects."""
    main = subject.main
    counts = dict.fromkeys(row.parameters.get("objects") for row in subject.rows)
    for objects in counts:
        rows = [row for row in subject.rows if row.parameters.get("objects") == objects
                and main and main.name in row.metrics]
        tests = dict.fromkeys(row.test for row in rows)
        if main is None or not tests:
            continue
        figure, panels = look.panels(len(tests), 2.2, min(2, len(tests)))
        places = sorted({place for row in rows
                         if (place := number(row.parameters.get("concurrency"))) is not None})
        for axes, test in zip(panels, tests, strict=True):
            for storage in subject.storages:
                found = sorted((place, row.metrics[main.name]) for row in rows
                               if (row.test, row.storage) == (test, storage)
                               and (place := number(row.parameters.get("concurrency")))
                               is not None)
                if not found:
                    continue
                style = look.style(storage)
                axes.errorbar([each for each, _ in found], [each.median for _, each in found],
                              [[each.median - each.least for _, each in found],
                               [each.most - each.median for _, each in found]],
                              color=style.colour, marker=style.marker, linestyle=style.line,
                              markersize=4, elinewidth=1, label=subject.title_of(storage))
            axes.set_title(test)
            logarithmic(axes, "y")
            if places and places[0] > 0:
                axes.set_xscale("log")
                axes.minorticks_off()
                axes.set_xticks(places, [wording.number(each) for each in places])
            axes.set_xlabel("at once")
            axes.set_ylabel(wording.axis(main))
        look.legend(figure, panels)
        text = f"{objects} objects a transaction" if objects is not None else "all transactions"
        yield Drawn(wording.slug(subject.run.label, "concurrency", str(objects or "")),
                    f"{text}: {main.title} by how many work at once; median and range of the "
                    "rounds, both axes logarithmic. Higher is better.", figure)
