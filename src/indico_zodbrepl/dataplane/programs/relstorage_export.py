"""The program that exports what one server's database has and another one's lacks.

usage: python -m indico_zodbrepl.dataplane.programs.relstorage_export OWN OTHER FOLDER --named NAME

OWN and OTHER are ZODB configuration files of two RelStorages with a common history; nobody writes
to OWN.  FOLDER appears, complete, when OWN has transactions after the newest that both
have: as `datafs export` makes it, a Data.fs of them alone and the list of their objects.  NAME is
the origin that the list names.

Prints one JSON object: `transactions` (how many only OWN has), `common` (the newest that both
have, or null), `history` (whether OWN keeps history), and of an export what that tells.

Without history the last states of objects are all there is: of an object that was changed several
times only the last state is exported, without its author, and a transaction whose objects OTHER
changed since is exported although OTHER had it.  An object that OTHER also has counts as changed.

exit status: 0 done, 2 wrong command line, 3 OWN can not be read, 4 OTHER can not, 7 no transaction
with a tid that both have is the same, 9 too little space on the disk, 1 another failure.
"""
from __future__ import absolute_import

import argparse
import contextlib
import errno
import itertools
import json
import logging
import os
import shutil
import sys
import tempfile
import time

from ZODB.POSException import POSKeyError
from ZODB.TimeStamp import TimeStamp
from ZODB.utils import load_current, p64, u64

from indico_zodbrepl.dataplane.convert.failures import ConversionError
from indico_zodbrepl.dataplane.convert.files import FileTarget
from indico_zodbrepl.dataplane.convert.storages import Source, open_conf
from indico_zodbrepl.dataplane.convert.transactions import Record, Transaction, difference
from indico_zodbrepl.dataplane.datafs.export import EVERYTHING, export
from indico_zodbrepl.dataplane.datafs.failures import DataFileError

NO_SPACE = 9
BASE = b'what was there before'


@contextlib.contextmanager
def opened(path, status):
    """Open a RelStorage; an error before it is used is reported with exit status `status`."""
    try:
        storage = open_conf(path)
    except Exception as error:  # each driver has its own
        raise Failed(status, one_line(error))
    with contextlib.closing(storage):
        yield storage


def before(storage, oid, tid, history):
    """Return an object's data before a transaction; None if it did not exist."""
    try:
        if not history:
            return load_current(storage, oid)[0]
        found = storage.loadBefore(oid, tid)
    except POSKeyError:
        return None
    return found[0] if found else None


class Present(object):
    """Those blob files that are not missing; `export` counts the others.

    Args:
        blobs: as in `convert.blobs`.
    """

    def __init__(self, blobs):
        self._blobs = blobs

    @contextlib.contextmanager
    def file(self, oid, tid):
        """Yield the path of a blob's file, or None."""
        if not self._blobs.has(oid, tid):
            yield None
            return
        with self._blobs.file(oid, tid) as path:
            yield path


def write_tail(own, other, common, private, folder, named):
    """Export transactions; return what `export` does.

    They are put into a Data.fs after one transaction that holds the earlier states of their
    objects, so that the export shows what is new.
    """
    history = own.keep_history
    disk = tempfile.mkdtemp(prefix='.making-', dir=os.path.dirname(folder))
    try:
        path = os.path.join(disk, 'Data.fs')
        with contextlib.closing(Source(own)) as source, \
                contextlib.closing(FileTarget(path)) as target:
            following = itertools.takewhile(lambda each: each.tid <= private[-1],
                                            source.transactions(common))
            if common is not None:
                oids = set(record.oid for each in Source(own).transactions(common)
                           for record in each.records)
                target.write(Transaction(common, b' ', b'', BASE, b'', [
                    Record(oid, data, None) for oid, data in (
                        (oid, before(own if history else other, oid, private[0], history))
                        for oid in sorted(oids)) if data is not None]))
            for transaction in following:
                target.write(transaction, Present(source.blobs), lambda size: None)
            target.settle()
            target.publish()
        return export(path, common or EVERYTHING, folder, named)
    finally:
        shutil.rmtree(disk)


def run(own_conf, other_conf, folder, named):
    """Return the program's answer.  Raises Failed and whatever an export raises."""
    with opened(own_conf, OWN_UNREADABLE) as own, opened(other_conf, OTHER_UNREADABLE) as other:
        common, private = private_tids(own, other)
        told = write_tail(own, other, common, private, folder, named) if private else {}
        unknown = 0 if own.keep_history or not private else perhaps(own, other, common)
        return dict(told, transactions=len(private), history=own.keep_history, perhaps=unknown,
                    common=common and common.encode('hex'))


def main(arguments=None):
    """Run an export; return the exit status."""
    parser = argparse.ArgumentParser(prog='python -m indico_zodbrepl.dataplane.programs.relstorage_export',
                                     description='Exports what only one of two databases has.')
    for name in ('own', 'other', 'folder'):
        parser.add_argument(name, metavar=name.upper())
    parser.add_argument('--named', metavar='NAME', required=True)
    options = parser.parse_args(arguments)
    # Keep the storages' own log messages off standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        print(json.dumps(run(options.own, options.other, os.path.abspath(options.folder),
                             options.named), sort_keys=True))
        return 0
    except Failed as error:
        why, status = error, error.status
    except (ConversionError, DataFileError) as error:
        why, status = error, 1
    except EnvironmentError as error:
        why, status = error, NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else 1
    sys.stderr.write('%s\n' % why)
    return status


OWN_UNREADABLE, OTHER_UNREADABLE, DIFFERS = 3, 4, 7
MOST_COLLISIONS = 100
LOOKED_BACK = (600, 86400, 30 * 86400)  # seconds before the last transaction, then everything


class Failed(Exception):
    """An error that the program reports in one line before it exits with `status`."""

    def __init__(self, status, why):
        super(Failed, self).__init__(why)
        self.status = status


def tids(storage, start, status):
    """Return the tids after a given one, or all, oldest first.  Raises Failed."""
    try:
        with contextlib.closing(storage.iterator(start)) as found:
            return [each.tid for each in found]
    except Exception as error:  # as above
        raise Failed(status, one_line(error))


def private_tids(own, other):
    """Return the newest common tid, or None, and the list of later tids of `own`.

    Databases that went on apart may give the same tid to different transactions: tids are times with
    the resolution of a microsecond.  Raises Failed if no transaction of the same tid is the same.
    """
    last = own.lastTransaction()
    starts = [_earlier(last, seconds) for seconds in LOOKED_BACK] if last > EVERYTHING else []
    differs = None
    for start in starts + [None]:
        mine = tids(own, start, OWN_UNREADABLE)
        theirs = set(tids(other, start, OTHER_UNREADABLE))
        if own.keep_history:
            common, differs = newest_same(own, other, [tid for tid in mine if tid in theirs])
        else:
            common = newest_before_private(own, other, start, theirs)
        if common:
            return common, mine[mine.index(common) + 1:]
    if differs:
        raise Failed(DIFFERS, differs)
    return None, mine


def newest_same(own, other, shared):
    """Return the newest of the tids `shared` whose transactions are the same, and how others differ.

    Either may be None.
    """
    differs = None
    for tid in itertools.islice(reversed(shared), MOST_COLLISIONS):
        one, two = (next(Source(each).transactions(p64(u64(tid) - 1))) for each in (own, other))
        found = difference(one, two, extension_bytes=False)
        if not found:
            return tid, differs
        differs = differs or 'transaction %s differs: %s' % (tid.encode('hex'), found)
    return None, differs


def newest_before_private(own, other, start, theirs):
    """Return the newest of the tids `theirs` before a transaction that OTHER certainly lacks."""
    common = None
    for transaction in Source(own).transactions(start):
        if any(_tid(other, record.oid) < transaction.tid for record in transaction.records):
            break
        if transaction.tid in theirs:
            common = transaction.tid
    return common


def _earlier(tid, seconds):
    moment = TimeStamp(tid).timeTime() - seconds
    return TimeStamp(*(time.gmtime(moment)[:5] + (moment % 60,))).raw()


def perhaps(own, other, common):
    """Return how many of the oldest private transactions OTHER may have had.

    OTHER has changed all of their objects since, and keeps no history.  It also lacks every
    transaction after one that it certainly lacks.
    """
    count = 0
    for transaction in Source(own).transactions(common):
        if not all(_tid(other, record.oid) > transaction.tid for record in transaction.records):
            break
        count += 1
    return count


def _tid(storage, oid):
    try:
        return load_current(storage, oid)[1]
    except POSKeyError:
        return EVERYTHING


def one_line(error):
    """Return an exception as a single line."""
    return '%s: %s' % (type(error).__name__, ' '.join(str(error).split()))


if __name__ == '__main__':
    sys.exit(main())
