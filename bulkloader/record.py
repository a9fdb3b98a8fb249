"""The loader's own record, kept in the storage and committed with what it tells of.

`root['bulkloader']` is a list of runs. It is made of plain persistent types, so
that Indico and storage servers need nothing of the bulk loader to load it.
"""
import datetime
from collections import namedtuple

from BTrees.IOBTree import IOBTree
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping

from bulkloader import specification

KEY = 'bulkloader'

# what a run made of one event, as far as anybody counts it; kind may be unknown; files: a list of
# `specification.File`s
Expected = namedtuple('Expected', 'kind contributions sessions slots materials files')


class Run(object):
    """One run's record; a view on the persistent mapping that holds it."""

    def __init__(self, mapping):
        self._mapping = mapping
        self._made = None

    @property
    def parameters(self):
        return specification.Parameters(**self._mapping['parameters'])

    @property
    def generator(self):
        """Return the `specification.GENERATOR` that the run was begun with."""
        return self._mapping['generator']

    @property
    def categories(self):
        """Ids of the categories that hold the conferences, in the specification's order."""
        return self._mapping['categories']

    @property
    def done(self):
        """Return how many conferences are there; they are the first ones of the specification."""
        return self._mapping['done']

    @property
    def conferences(self):
        """Return an IOBTree from the number of a conference in the specification to its id."""
        return self._mapping['conferences']

    @property
    def with_files(self):
        """Return of how many conferences the files are there; they are the first ones."""
        return self._mapping.get('with_files', 0)

    @property
    def finished(self):
        there = self.with_files if self.parameters.files else self.done
        return self.done == there == self.parameters.conferences

    def expected(self, index):
        """Return the `Expected` of event `index` of the specification.

        Runs of generator 1 had conferences only, of which each had as many contributions.
        """
        if self.generator == 1:
            return Expected(None, self.parameters.contributions, 0, 0, 0, [])
        layout = self._specification().layout(index)
        return Expected(
            layout.kind, len(layout.contributions), len(layout.sessions),
            sum(len(session.slots) for session in layout.sessions),
            len(layout.materials) + sum(len(each.materials) for each in layout.contributions),
            self._specification().files.of(index))

    def _specification(self):
        if self._made is None:
            self._made = specification.Specification(self.parameters)
        return self._made

    def add(self, conference_id):
        """Records the next conference."""
        self.conferences[self.done] = conference_id
        self._mapping['done'] += 1

    def add_files(self, last):
        """Records that the conferences before this one have their files."""
        self._mapping['with_files'] = last


def runs(root):
    """Return the runs recorded under a database root, the oldest first."""
    return [Run(mapping) for mapping in root.get(KEY, ())]


def begin(root, parameters, categories):
    """Records a new run whose categories were just made, and returns it."""
    if KEY not in root:
        root[KEY] = PersistentList()
    root[KEY].append(PersistentMapping({
        'parameters': dict(parameters._asdict()),
        'generator': specification.GENERATOR,
        'begun': datetime.datetime.utcnow().replace(microsecond=0).isoformat() + 'Z',
        'categories': list(categories),
        'done': 0,
        'conferences': IOBTree(),
    }))
    return runs(root)[-1]
