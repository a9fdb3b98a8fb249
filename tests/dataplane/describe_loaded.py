"""Prints as JSON what a test of writing may have changed, from data files that may be in use.

Reads paths of data files from standard input and answers each with one line.
"""
import json
import re
import sys

from indico.core.db import DBMgr
from indico.core.db.migration import MigratedDB
from indico_zodbrepl.dataplane.benchmarks import modifications, readings
from MaKaC.common.indexes import IndexesHolder
from MaKaC.conference import ConferenceHolder
from MaKaC.trashCan import TrashCanManager
from ZODB.FileStorage import FileStorage


class Beside(DBMgr):
    """Indico's access to a file that another process has open."""

    def __init__(self, path):
        import threading
        self._storage = FileStorage(path, read_only=True)
        self._db = MigratedDB(self._storage)
        self._conn = threading.local()
        self._conn.conn = None


def described(conference):
    return {
        'title': conference.getTitle(),
        'description': conference.getDescription(),
        'room': conference.getRoom().getName(),
        'modified': str(conference.getModificationDate()),
        'contributions': sorted(
            (each.getId(), each.getTitle()) for each in conference.getContributionList()),
        'next_contribution': conference._Conference__contribGenerator._getCount(),
    }


def phrase(title):
    return '"%s"' % ' '.join(re.findall('[A-Za-z]+', title))


def main(path):
    manager = Beside(path)
    DBMgr.setInstance(manager)
    manager.startRequest()
    root = manager.getDBConnection().root()
    titles = IndexesHolder().getIndex('conferenceTitle')
    print(json.dumps({
        'journal': modifications.KEY in root,
        'conferences': dict(
            (each, described(ConferenceHolder().getById(each)))
            for each in readings.conferences(root)),
        'found_by_title': dict(
            (each, sorted(titles.search(phrase(ConferenceHolder().getById(each).getTitle()))))
            for each in readings.conferences(root)),
        'found_by_mark': sorted(titles.search('benchmark')),
        'trash': len(TrashCanManager()._getIdx()),
    }))
    sys.stdout.flush()
    manager._db.close()


if __name__ == '__main__':
    for line in iter(sys.stdin.readline, ''):
        main(line.rstrip('\n'))
