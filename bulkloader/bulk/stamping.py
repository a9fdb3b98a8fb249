"""Stamp out the events of a specification, each with the stencil of its layout."""
from bulkloader.bulk import samples
from bulkloader.bulk.cutting import Unexplained, cut, prove
from bulkloader.bulk.values import names, values
from bulkloader.errors import NOT_ALIKE, LoaderError


class Stamping(object):
    """Makes the records of the events of a run.

    Args:
        specification: a `Specification`.
        manager: Indico's `DBMgr`, in whose database Indico makes the sample events.

    The first question about an event of a layout has Indico make samples of it, in a connection of
    their own; then Indico forgets what it remembers in a request. One thread at a time.
    """

    def __init__(self, specification, manager):
        self._specification, self._manager = specification, manager
        self._stencils, self._shapes = {}, {}
        self._asked = None

    def event(self, index):
        """Return event `index` as a `specification.Conference`."""
        return self._event_and_stencil(index)[0]

    def stencil(self, index):
        """Return the `Stencil` that event `index` is made with."""
        return self._event_and_stencil(index)[1]

    def count(self, index):
        """Return how many objects event `index` has."""
        return self.stencil(index).count

    def heads(self, index):
        """Return {name: position} of the objects that are reached from outside of the event.

        Names are 'conference', 'display' (its entry in the registry of display managers) and
        'pages' (its entry in that of internal pages).
        """
        return self.stencil(index).heads

    def stamp(self, index, oids, placement):
        """Return the records of event `index` as a `stencil.Stamped`.

        Args:
            oids: `count(index)` new object ids, of 8 bytes each.
            placement: a `values.Placement`.

        Raises LoaderError when Indico makes events of its layout that differ by more than values.
        """
        event, stencil = self._event_and_stencil(index)
        return stencil.stamp(oids, values(event, placement))

    def _event_and_stencil(self, index):
        if self._asked is None or self._asked[0] != index:
            event = self._specification.conference(index)
            number = self._specification.layout_number(index)
            if number not in self._stencils:
                self._stencils[number] = self._made(self._specification.layouts[number], event)
            self._asked = index, (event, self._stencils[number])
        return self._asked[1]

    def _made(self, layout, event):
        """Return the stencil of a layout; layouts of one shape have one, and each proves it."""
        shape = _shape(layout)
        try:
            if shape not in self._shapes:
                self._shapes[shape] = make_stencil(self._manager, event)
            else:
                prove_stencil(self._shapes[shape], self._manager, event)
        except Unexplained as error:
            raise LoaderError(
                NOT_ALIKE, 'this Indico makes events in a way that the bulk way does not know',
                str(error), 'give the same command with --method model, which has Indico make each '
                'event; it goes on where this one stopped')
        return self._shapes[shape]


def _shape(layout):
    """Return what a layout says of the form of an event's records.

    Times are values. In which order people are sorted shows in the index of authors alone.
    """
    people = layout.people if layout.contributions else len(layout.people)
    return layout._replace(days=None, start=None, end=None, people=people)


def make_stencil(manager, conference):
    """Return the proved `Stencil` of the layout of a `specification.Conference`.

    Raises `cutting.Unexplained` when two events differ, and not by their values.
    """
    with samples.scratch(manager) as connection:
        one, other, third = [
            samples.build(connection, samples.made_up(conference, number), number)
            for number in range(3)]
    stencil = cut(names(conference), one, other)
    prove(stencil, third)
    prove_stencil(stencil, manager, conference)
    return stencil


def prove_stencil(stencil, manager, conference):
    """Raise `cutting.Unexplained` when the stencil makes this event in another way than Indico."""
    with samples.scratch(manager) as connection:
        prove(stencil, samples.build(connection, conference, 3))
