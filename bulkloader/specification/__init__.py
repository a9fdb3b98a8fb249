"""What a run of the bulk loader makes (pure, Python 2.7 and 3).

Everything follows from the `Parameters`: event number 17 of a seed is the same on every machine
and interpreter, and can be had without the 16 before it, so an interrupted run goes on where it
stopped. `shapes` has the tuples, `layouts` what hangs together how, `values` words, dates and
people.
"""
from bulkloader.specification.amounts import Amount
from bulkloader.specification.categories import Tree
from bulkloader.specification.draws import Draws
from bulkloader.specification.files import MAX_FILES, Contents, File, Files, Sizes, size_of
from bulkloader.specification.layouts import MAX_PEOPLE, layouts
from bulkloader.specification.parameters import (
    EVENTS_PER_CATEGORY, FAN_OUT, MAX_CONTRIBUTIONS, MAX_MATERIALS, MAX_SESSIONS, MAX_SPEAKERS,
    Mix, Parameters, default_categories)
from bulkloader.specification.profiles import PROFILES
from bulkloader.specification.shapes import (
    CONFERENCE, KINDS, LECTURE, MATERIALS, MEETING, Category, Conference, Contribution,
    ContributionLayout, Layout, Material, Person, Room, Session, SessionLayout, Slot, SlotLayout,
    rank)
from bulkloader.specification.sizes import estimated_bytes, events_of_size
from bulkloader.specification.values import PEOPLE, Values

__all__ = (
    'CONFERENCE', 'EVENTS_PER_CATEGORY', 'FAN_OUT', 'GENERATOR', 'KINDS', 'LECTURE', 'MATERIALS',
    'MAX_CONTRIBUTIONS', 'MAX_FILES', 'MAX_MATERIALS', 'MAX_PEOPLE', 'MAX_SESSIONS', 'MAX_SPEAKERS', 'MEETING',
    'PEOPLE', 'PROFILES', 'Amount', 'Category', 'Conference', 'Contents', 'Contribution',
    'ContributionLayout', 'File', 'Files', 'Layout', 'Material', 'Mix', 'Parameters', 'Person', 'Room', 'Session',
    'SessionLayout', 'Sizes', 'Slot', 'SlotLayout', 'Specification', 'default_categories',
    'estimated_bytes', 'events_of_size', 'rank', 'size_of')

# Raise it whenever a change in this package or in `vocabulary` makes other data of the same
# parameters: a run that an older generator began cannot be finished by a newer one.
GENERATOR = 2


class Specification(object):
    """All that one run makes, computed on demand.

    Args:
        parameters: `Parameters`. Raises ValueError when they make no sense.

    Not for several threads at a time: it keeps people, rooms and the last layout drawn.
    """

    def __init__(self, parameters):
        self.parameters = parameters
        self._values = Values(parameters.seed, parameters.rooms)
        self._tree = Tree(self._values.topics, parameters.categories, parameters.fan_out)
        self._kinds = layouts(parameters)
        self.files = Files(parameters)
        self._last = None, None     # an event and the number of its layout
        self.layouts = tuple(layout for _, of_kind in self._kinds for layout in of_kind)

    def layout_number(self, index):
        """Return the position in `layouts` of the layout of event `index` (from 0)."""
        if index != self._last[0]:
            self._last = index, self._drawn_layout(index)
        return self._last[1]

    def _drawn_layout(self, index):
        draws = Draws(self.parameters.seed, 'layout of', index)
        fraction, first = draws.fraction(), 0
        for share, of_kind in self._kinds[:-1]:
            if fraction < share:
                return first + draws.below(len(of_kind))
            fraction -= share
            first += len(of_kind)
        return first + draws.below(len(self._kinds[-1][1]))

    def layout(self, index):
        """Return the `Layout` of event `index`: the same object for all events that have it."""
        return self.layouts[self.layout_number(index)]

    def conference(self, index):
        """Return event `index`, 0 to conferences - 1, as a `Conference`, whatever its kind."""
        return self._values.event(index, self.layout(index),
                                  self._tree.topic_of(self.category_of(index)))

    def category_tree(self):
        """Return the `Category` tuples that go below the root.

        Those without children hold the events; from left to right they have the numbers
        `category_of` speaks of.
        """
        return self._tree.categories()

    def category_of(self, index):
        """Return the number of the category that holds event `index`."""
        return index * self.parameters.categories // self.parameters.conferences

    def category_sizes(self):
        """Return how many events each category holds, in their order."""
        sizes = [0] * self.parameters.categories
        for index in range(self.parameters.conferences):
            sizes[self.category_of(index)] += 1
        return sizes

    def room(self, number):
        """Return `Room` number 0 to rooms - 1."""
        return self._values.room(number)

    def person(self, number):
        """Return `Person` number 0 to PEOPLE - 1; addresses are in a domain without mail."""
        return self._values.person(number)
