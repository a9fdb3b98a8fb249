"""Pairs of Indicos that were filled in two ways, and what is compared between them."""
import datetime
import json
import re
from contextlib import closing

from ZODB.FileStorage import FileStorage

from bulkloader.specification import Parameters
from graphs import Database, describe, differences, unreachable
from visitor import LOGIN, PASSWORD

EVENTS_BEFORE = 7        # in the Indico into which ALL_KINDS is loaded
ALL_KINDS = Parameters(
    conferences=28, contributions='0-24', categories=5, rooms=9, seed=1070, sessions='0-2',
    speakers='1-2', materials='0-6', events='conference:3,meeting:2,lecture', fan_out=3)
BEGAN = datetime.datetime.utcnow()
TOLD = 25                # differences that a failed test shows
OF_VISITORS = "root.data['expiringValues']"  # their sessions
# What changes from one request to the next, or tells when something was made.
_PASSING = re.compile('|'.join((
    r'<meta content="[0-9a-f-]{36}" name="csrf-token"',
    r'static-tabs-\d+',
    r'DTSTAMP[^\r\n]*',
    r'<(creation|modification)Date>[^<]*',
    r'<updated>[^<]*',
    r'"(creationDate|modificationDate)": \{[^}]*\}',
    r'"ts": \d+', r'"_ts": \d+',
    # The states of contributions are in the order of their addresses in memory.
    r'<input type="checkbox" name="status"[^\n]*', r'\?status=[^"]*',
)))


class Pair(object):
    """Two `Home`s whose data is compared; `each` does the same to both."""

    def __init__(self, one, other):
        self.homes = one, other

    def each(self, work):
        return [work(home) for home in self.homes]

    def differences(self):
        """Returns in words in what the two databases differ; [] if in nothing."""
        with closing(self._storage(0)) as one, closing(self._storage(1)) as other:
            now = datetime.datetime.utcnow()
            found = [describe(each) for each in differences(
                Database(one, BEGAN, now), Database(other, BEGAN, now))
                if not each.path.startswith(OF_VISITORS)]
        if len(found) > TOLD:
            found[TOLD:] = ['and %d more' % (len(found) - TOLD)]
        return found

    def unreachable(self):
        """Returns for each of the two what nothing in it leads to."""
        with closing(self._storage(0)) as one, closing(self._storage(1)) as other:
            return unreachable(one), unreachable(other)

    def _storage(self, number):
        return FileStorage(str(self.homes[number].data), read_only=True)

    def pages(self, paths):
        """Returns for each of the two {path: (status, text)} without what passes."""
        return self.each(lambda home: pages(home, paths))


def pages(home, paths):
    """Returns {path: (status, text)} of pages shown to the administrator."""
    wanted = home.folder.join('paths.json')
    wanted.write(json.dumps(paths))
    result = home.script('pages.py', LOGIN, PASSWORD, wanted)
    assert 0 == result.code, result.text
    return dict((path, (status, _PASSING.sub('', text)))
                for path, (status, text) in result.json.items())


def command(parameters, method, more=''):
    """Returns the arguments of bulkload that make a run of these `Parameters`."""
    return '--method %s %s %s' % (method, ' '.join(
        '--%s %s' % (name.replace('_', '-'), value)
        for name, value in zip(parameters._fields, parameters)), more)


def by(method, parameters, more=''):
    """A way to load a home: all at once."""
    def load(home):
        result = home.bulkload(command(parameters, method, more))
        assert 0 == result.code, result.text
    return load


def in_sittings(parameters, *methods):
    """A way to load a home: one batch by each method, all that is left by the last one."""
    def load(home):
        for method in methods[:-1]:
            result = home.script('interrupted.py', *command(
                parameters, method, '--batch 13').split())
            assert 130 == result.code, result.text
        by(methods[-1], parameters)(home)
    return load


def busiest(specification, kind):
    """The number of the event of a kind that has the most sessions, then contributions."""
    def business(index):
        layout = specification.layout(index)
        return layout.kind == kind, len(layout.sessions), len(layout.contributions)
    return max(range(specification.parameters.conferences), key=business)
