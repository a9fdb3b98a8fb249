"""A client whose transactions are judged; Python 2.7.

usage: client.py ZODB_CONF LOG SESSION FIRST BEGAN SEED PAUSE

SESSION is PLACE/START.  A client that drops its cache, because a server does not have what the client
has seen, continues as another session: PLACE/START.DROPS.

It reads lists and appends to them, and writes and reads single objects, which `prepare.py` has made.
Each transaction has a number from FIRST on, which is what it writes.  Its call is in the log before
it can have an effect, and its answer afterwards, each a JSON object a line.  Times are seconds of
CLOCK_BOOTTIME; BEGAN is when the run began, PAUSE is between two transactions.

A call: {"call": number, "session", "kind", "began", "read", "to", "at"}.  The kinds
"append" and "look" read lists: "read" has for each one how much of it is as the session read it
last, and what follows.  "write" and "read" read the value of an object.  "to" names the objects
that the transaction changes, "at" is the server of a RelStorage that it read from.
An answer: {"answer": number, "outcome", "ended", "server", "error"}.  The server is the one that the
transaction was committed at; empty if that is not certain.
A transaction that failed before it had read everything: {"failed": error, "began", "ended"}.
"""
import importlib
import json
import logging
import os
import random
import sys
import time

import transaction
import ZODB
import ZODB.config
from objects import LISTS, VALUES, generation, key_of, own_key

from indico_zodbrepl.dataplane.client.status import storage_status
from indico_zodbrepl.dataplane.programs.clock import boottime

try:
    from relstorage.adapters.mysql.adapter import MySQLAdapter
    from relstorage.adapters.postgresql.adapter import PostgreSQLAdapter
    from relstorage.adapters.txncontrol import GenericTransactionControl
except ImportError:
    COMMITS = ()
else:
    # The second one usually commits itself, in the same statement.
    COMMITS = ((GenericTransactionControl, 'commit_phase2'),
               (MySQLAdapter, 'lock_database_and_move'),
               (PostgreSQLAdapter, 'lock_database_and_move'))

KINDS = ('append',) * 6 + ('look',) * 2 + ('write',) * 2 + ('read',)


class CommittedAt(object):
    """The server of the last commit of a RelStorage, which no status tells: that is of another moment.

    Works on the classes that all commits of the process pass through.  `server` is None with any
    other storage.
    """

    def __init__(self):
        self.server = None
        for committing, name in COMMITS:
            self._watch(committing, name)

    def _watch(self, committing, name):
        commit = getattr(committing, name)

        def committed(its, store_connection, *arguments, **options):
            server = store_connection.connection.replica
            result = commit(its, store_connection, *arguments, **options)
            self.server = server
            return result

        setattr(committing, name, committed)


class Client(object):
    """Transactions of one connection, one after the other.

    Args:
        log: descriptor of a file that is only appended to.
        place: names the client among all that run at the same time.
    """

    def __init__(self, db, log, session, place, chance):
        self._db = db
        self._log = log
        self._session = session
        self._place = place
        self._chance = chance
        self._committed_at = CommittedAt()
        self._connection = db.open()
        self._drops = 0
        self._known = {}
        self._seen = {}
        self._work = {
            'append': self._append,
            'look': self._look,
            'write': self._write_value,
            'read': self._read_value,
        }

    def do(self, number, generation):
        """Try one transaction, and log it; it does not raise what the storage raises."""
        kind = self._chance.choice(KINDS)
        began, server = boottime(), self._server()
        called = False
        self._seen = {}
        self._committed_at.server = None
        try:
            transaction.begin()
            self._see_drops()
            objects = self._connection.root()['chaos']
            read, to = self._work[kind](objects, number, generation)
            transaction.get().note(u'%d' % number)
            self._write(
                call=number,
                session=self._name(),
                kind=kind,
                began=began,
                read=read,
                to=to,
                at=self._read_at(),
            )
            called = True
            self._known.update(self._seen)  # never what no call tells
            transaction.commit()
        except Exception as error:
            transaction.abort()
            said = ('%s: %s' % (type(error).__name__, error))[:200]
            if called:
                unknown = getattr(error, 'outcome_unknown', False)
                self._answer(number, 'unknown' if unknown else 'refused', server, said)
            else:
                self._write(failed=said, began=began, ended=boottime())
        else:
            self._answer(number, 'acknowledged', server, '')

    def _see_drops(self):
        """Begin another session if the cache was dropped."""
        drops = getattr(self._connection._storage, '_begun', 0)
        if drops != self._drops:
            self._drops = drops
            self._known.clear()

    def _name(self):
        return '%s.%d' % (self._session, self._drops)

    def _append(self, objects, number, generation):
        read, to = self._look(objects, number, generation)[0], []
        for key in self._chance.sample(sorted(read), self._chance.choice((1, 1, 2))):
            objects[key].append(number)
            to.append(key)
        return read, to

    def _look(self, objects, number, generation):
        keys = [key_of('list', generation, place) for place in range(LISTS)]
        return {key: self._news(key, list(objects[key])) for key in keys}, []

    def _news(self, key, seen):
        """How much of a list is as it was, and what follows."""
        known = self._known.get(key, [])
        same = len(known)
        if seen[:same] != known:
            same = next(
                place for place, pair in enumerate(map(None, known, seen)) if pair[0] != pair[1]
            )
        self._seen[key] = seen
        return [same, seen[same:]]

    def _value(self, generation):
        return key_of('value', generation, self._chance.randrange(VALUES))

    def _write_value(self, objects, number, generation):
        key = self._value(generation)
        saw, objects[key][0] = objects[key][0], number
        return {key: saw}, [key]

    def _read_value(self, objects, number, generation):
        # Only so the read is of the present state; it is checked if the transaction changes something.
        # ZODB ignores an object that is not loaded, or takes its former revision.
        key = self._value(generation)
        read = objects[key][0]
        self._connection.readCurrent(objects[key])
        objects[own_key(self._place)][0] = number
        return {key: read}, []

    def _read_at(self):
        """The server of a RelStorage from which the transaction has read; None of other storages."""
        reading = getattr(self._connection._storage, '_load_connection', None)
        return getattr(getattr(reading, 'connection', None), 'replica', None)

    def _server(self):
        return storage_status(self._db)['server'] or ''

    def _answer(self, number, outcome, before, error):
        server = self._committed_at.server
        if server is None:
            server = self._server()
            server = server if server == before else ''
        self._write(answer=number, outcome=outcome, ended=boottime(), error=error, server=server)

    def _write(self, **values):
        os.write(self._log, json.dumps(values) + '\n')


def opened(configuration):
    """Return the database; wait until it can be opened."""
    while True:
        try:
            return ZODB.DB(ZODB.config.storageFromURL(configuration))
        except Exception as error:
            sys.stderr.write('%s: %s\n' % (type(error).__name__, error))
            time.sleep(0.1)


class Moment(logging.Filter):
    """Adds the seconds of CLOCK_BOOTTIME to each record; other clocks jump."""

    def filter(self, record):
        record.moment = boottime()
        return True


def log_to_stderr():
    """Log what the storage tells, and how it polls, instead of what Indico configures."""
    importlib.import_module('MaKaC.common.logger')  # else the first object of Indico imports it
    handler = logging.StreamHandler()
    handler.addFilter(Moment())
    handler.setFormatter(logging.Formatter('%(moment).3f %(name)s %(levelname)s %(message)s'))
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger('indico_zodbrepl').setLevel(logging.DEBUG)


def main():
    configuration, path, session = sys.argv[1:4]
    os.chdir(os.path.dirname(path))  # Indico makes a log where it is imported
    log_to_stderr()
    first, began, seed, pause = (
        int(sys.argv[4]),
        float(sys.argv[5]),
        sys.argv[6],
        float(sys.argv[7]),
    )
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    client = Client(opened(configuration), log, session, session.split('/')[0], random.Random(seed))
    number = first
    while True:
        client.do(number, generation(boottime() - began))
        number += 1
        time.sleep(pause)


if __name__ == '__main__':
    main()
