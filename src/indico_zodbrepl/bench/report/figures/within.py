"""Ratios within a storage: on another device, or with compression."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .. import look, wording
from ..drawing import Drawn
from ..paired import pairs
from ..subject import Subject
from .generic import logarithmic


def ratios(parameter: str, names: Sequence[str]) -> Callable[[Subject], Iterator[Drawn]]:
    """A figure of all pairs that differ in a parameter, for each of some metrics."""
    def draw(subject: Subject) -> Iterator[Drawn]:
        """Ratios between values of a parameter."""
        for name in names:
            found = [each for each in pairs(subject, parameter, [name]) if each.ratio.least > 0]
            if not found:
                continue
            figure, (axes,) = look.panels(1, 0.95 + 0.26 * len(found))
            axes.axvline(1, color=look.INK, linewidth=1.2)
            for place, each in enumerate(found):
                style = look.style(each.storage)
                axes.plot([each.ratio.least, each.ratio.most], [place, place],
                          color=style.colour, linewidth=2)
                axes.plot([each.ratio.median], [place], style.marker, color=style.colour,
                          markersize=7)
            axes.set_yticks(range(len(found)), [
                wording.short(f"{subject.title_of(each.storage)}: "
                              f"{wording.case(each.test, each.others)}, {each.value}")
                for each in found])
            axes.set_ylim(len(found) - 0.4, -0.6)
            axes.grid(visible=False, axis="y")
            least, most = (choose(bound) for choose, bound in (
                (min, [each.ratio.least for each in found]),
                (max, [each.ratio.most for each in found])))
            if max(most, 1) > 5 * min(least, 1):
                logarithmic(axes, "x")
            else:
                axes.set_xlim(left=0)
            metric = found[0].metric
            axes.set_xlabel(f"{metric.title}, in times that with {parameter} {found[0].first}")
            yield Drawn(wording.slug(subject.run.label, "by", parameter, name),
                        f"{metric.title} in times that with {parameter} {found[0].first}, which "
                        "is the line at 1; median and range of the ratios of the rounds.", figure)
    return draw
