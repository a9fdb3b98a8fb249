"""Whether a database is whole: every object, every BTree, Indico's own checks; Python 2.7."""
import hashlib
import os
import runpy
import StringIO
import sys

import BTrees.check
import indico
from bulkloader.verify import verify
from MaKaC.conference import ConferenceHolder
from MaKaC.plugins.RoomBooking.default.dalManager import DALManager
from MaKaC.user import AvatarHolder
from ZODB.serialize import get_refs
from ZODB.utils import z64

MAINTENANCE = ('category_integrity.py', 'indexes/all_index_check.py')


def everything(manager):
    """All that is asked of a database, which has an open connection in this thread."""
    connection = manager.getDBConnection()
    trees, found = _reachable(connection)
    events = ConferenceHolder().getList()
    found.update({
        'broken_trees': [each for each in map(_broken, trees) if each],
        'trees': len(trees),
        'verified': verify(connection.root()).as_dict(),
        'users': sorted(each.getEmail() for each in AvatarHolder().getList()),
        'events': [[each.getId(), each.getTitle()] for each in events],
        'contributions': [contribution.getTitle() for each in events
                          for contribution in each.getContributionList()],
        'sessions': sorted([session.getTitle(), session.getRoom().getName(),
                            len(session.getSlotList())]
                           for each in events for session in each.getSessionList()),
        'rooms': _rooms(),
    })
    return found


def contents(manager):
    """Number of `objects` and `bytes` that the root leads to, their `digest`, number of `events`."""
    _, found = _reachable(manager.getDBConnection())
    return {'objects': found['objects'], 'bytes': found['bytes'], 'digest': found['digest'],
            'events': len(ConferenceHolder().getList())}


def _rooms():
    DALManager.connect()
    return sorted(each.name for each in DALManager.getRoot('Rooms').values())


def _reachable(connection):
    """Loads every object that the root leads to.

    Returns: the BTrees and TreeSets, and a dict: number of `objects`, `bytes` of them, a `digest`
    of all, and those that are `unreadable`.
    """
    storage = connection._storage
    wave, seen = [z64], set([z64])
    trees, unreadable, digests, size = [], [], [], 0
    while wave:
        connection.prefetch(wave)
        following = []
        for oid in wave:
            try:
                data = storage.load(oid)[0]
                references = get_refs(data)
                state = connection.get(oid)
            except Exception as error:
                unreadable.append('%s: %r' % (oid.encode('hex'), error))
                continue
            size += len(data)
            digests.append(hashlib.sha1(oid + data).digest())
            if type(state).__module__.startswith('BTrees.') and hasattr(state, '_check'):
                trees.append(state)
            for reference, _ in references:
                if reference not in seen:
                    seen.add(reference)
                    following.append(reference)
        wave = following
    digest = hashlib.sha1(''.join(sorted(digests))).hexdigest()
    return trees, {'objects': len(seen), 'bytes': size, 'digest': digest,
                   'unreadable': unreadable}


def _broken(tree):
    try:
        tree._check()
        BTrees.check.check(tree)
    except Exception as error:
        return '%s %s: %s' % (type(tree).__name__, tree._p_oid.encode('hex'), error)


def maintenance(manager):
    """What Indico's own integrity scripts print; they are silent when all is well.

    They open connections themselves, and one leaves its connection open.
    """
    folder = os.path.join(os.path.dirname(indico.__file__), os.pardir, 'bin', 'maintenance')
    caught = StringIO.StringIO()
    before = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = caught
    try:
        for name in MAINTENANCE:
            runpy.run_path(os.path.join(folder, name), run_name='__main__')
            if manager.isConnected():
                manager.endRequest(False)
    finally:
        sys.stdout, sys.stderr = before
    return caught.getvalue()
