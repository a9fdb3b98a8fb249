"""Find transactions that no snapshot isolation allows.  No I/O.

ZODB promises: a transaction reads one committed state; it does not commit if an object that it
changes was changed since; a session sees at least what it has seen and written before.  That is
strong session snapshot isolation.  A session may see an older state than others: a client learns of
changes by messages.

A history is allowed if all transactions can be ordered so that the order contains each of

- D: the writer of a version before the writer of the next one, the writer of a version before its
  readers, and each transaction of a session before the session's next one;
- D followed by R, where R leads from the reader of a version to the writer of the next one.

That is the characterisation of Cerone and Gotsman, "Analysing snapshot isolation", PODC 2016.  The
order of a ZODB's commits also has to fit the times: a transaction that was acknowledged before
another one began is before that one.

Each transaction is two nodes here: FROM it what is ordered after it, and AT it how it was reached.
D leads from FROM to FROM and AT, R from AT to FROM.  So a cycle contains no R that does not follow
a D.
"""

from __future__ import annotations

import collections
import graphlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from histories import Anomaly, Kind, Lists, Transaction
from traffic import Outcome

Node = tuple[str, int]
FROM, AT, MOMENT = "from", "at", "moment"
Edges = dict[Node, dict[Node, str]]
MOST_STARTS = 50
"""From how many nodes of a cycle a shorter one is looked for."""


def cycle(
    history: Sequence[Transaction], final: Lists, sights: Mapping[int, Mapping[str, int]]
) -> list[Anomaly]:
    """Return a short cycle of the required order, or nothing.

    Args:
        final: the lists at the end.
        sights: for each transaction how many elements of each list it saw.
    """
    edges: Edges = collections.defaultdict(dict)
    for one, other, why in _depends(history, final, sights):
        edges[FROM, one].setdefault((FROM, other), why)
        edges[FROM, one].setdefault((AT, other), why)
    for reader, writer, why in _replaces(final, sights):
        edges[AT, reader].setdefault((FROM, writer), why)
    _add_times(edges, history, final)
    sorter: graphlib.TopologicalSorter[Node] = graphlib.TopologicalSorter()
    for before, nodes in edges.items():
        for node in nodes:
            sorter.add(node, before)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        found = _shortest(edges, error.args[1])
        numbers = tuple(dict.fromkeys(number for kind, number in found if kind != MOMENT))
        return [Anomaly(Kind.CYCLE, _told(edges, found), numbers)]
    return []


def _depends(
    history: Iterable[Transaction], final: Lists, sights: Mapping[int, Mapping[str, int]]
) -> Iterator[tuple[int, int, str]]:
    for key, values in final.items():
        for one, other in itertools.pairwise(values):
            yield one, other, f"{other} follows in {key}"
    for reader, read in sights.items():
        for key, length in read.items():
            if length:
                writer = final[key][length - 1]
                yield writer, reader, f"{reader} saw it as the last one of {key}"
    latest: dict[str, int] = {}
    for each in sorted(history, key=lambda each: each.began):
        if each.session in latest:
            yield latest[each.session], each.number, f"{each.number} is later in {each.session}"
        # A commit with an unknown outcome may come into effect after the session's next reads.
        if each.outcome is not Outcome.UNKNOWN:
            latest[each.session] = each.number


def _replaces(
    final: Lists, sights: Mapping[int, Mapping[str, int]]
) -> Iterator[tuple[int, int, str]]:
    for reader, read in sights.items():
        for key, length in read.items():
            values = final.get(key, ())
            if length < len(values) and values[length] != reader:
                writer = values[length]
                yield reader, writer, f"it saw {key} without {writer}"


def _add_times(edges: Edges, history: Iterable[Transaction], final: Lists) -> None:
    """Order writers by time: through a chain of moments, so that a few edges do for all pairs."""
    held = {value for values in final.values() for value in values}
    writers = [each for each in history if each.number in held]
    events = sorted(
        [(each.ended, 0, each.number) for each in writers if each.outcome is Outcome.ACKNOWLEDGED]
        + [(each.began, 1, each.number) for each in writers]
    )
    for place, (time, begins, number) in enumerate(events):
        moment = MOMENT, place
        edges[moment][MOMENT, place + 1] = ""
        if begins:
            # An acknowledged commit need not be in the snapshot of a later one: no edge to AT.
            edges[moment][FROM, number] = f"{number} began at {time:.3f}"
        else:
            edges[FROM, number][moment] = f"{number} was acknowledged at {time:.3f}"


def _shortest(edges: Edges, nodes: Sequence[Node]) -> list[Node]:
    """Return the shortest cycle through one of these nodes, which are on a cycle."""
    found = [_around(edges, start) for start in nodes[:MOST_STARTS]]
    return min(found, key=_weight)


def _weight(found: Sequence[Node]) -> int:
    return sum(kind != MOMENT for kind, _ in found)


def _around(edges: Edges, start: Node) -> list[Node]:
    """Return the shortest way from a node back to it, without its return; moments don't count."""
    before: dict[Node, Node] = {}
    queue = collections.deque([start])
    done = set()
    while True:
        one = queue.popleft()
        if one in done:
            continue
        done.add(one)
        for other in edges.get(one, ()):
            if other == start:
                found = [one]
                while found[-1] != start:
                    found.append(before[found[-1]])
                return found[::-1]
            if other[0] == MOMENT and other not in done:
                before[other] = one
                queue.appendleft(other)
            elif other not in before:
                before[other] = one
                queue.append(other)


def _told(edges: Edges, found: Sequence[Node]) -> str:
    """Return the cycle in words."""
    steps = []
    for one, other in zip(found, [*found[1:], found[0]], strict=True):
        why = edges[one][other]
        if why:
            steps.append(f"{one[1]}: {why}" if one[0] != MOMENT else why)
    return "; ".join(steps)
