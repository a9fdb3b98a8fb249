"""Examine the Data.fs of an existing Indico before it is adopted; change nothing.

usage: python -m indico_zodbrepl.dataplane.indico.examine DATA.FS [--site-conf FILE] [--archive DIR]

Reads every record of the file, then the objects that tell which Indico wrote it.  Does not import
Indico: stand-ins take the place of its classes, so that the objects of any release can be read.
Progress goes to standard error, one JSON object a line.  Prints one JSON object: see `examine`.

exit status: 0 done, 1 another failure, 2 wrong command line or site-conf, 3 no such file,
4 damaged or no Data.fs, 5 a server has it open, 7 it holds no Indico,
130 interrupted.
"""
from __future__ import absolute_import

import argparse
import json
import logging
import os
import sys

import ZODB
from ZODB.FileStorage import FileStorage
from ZODB.POSException import POSError

from indico_zodbrepl.dataplane.convert.failures import ConversionError
from indico_zodbrepl.dataplane.convert import files
from indico_zodbrepl.dataplane.datafs.failures import DataFileError
from indico_zodbrepl.dataplane.indico import stand_ins
from indico_zodbrepl.dataplane.indico.releases import Marks
from indico_zodbrepl.dataplane.programs.clock import monotonic

REPORT = 2.0  # seconds
NAMED = 20  # missing files that are named
MAIN = ('localhost', 9675)  # Indico's defaults: the address of its database
ROOMS = ('localhost', 9676)  # and that of room booking
BATCH = 100  # objects after which the cache is reduced


class Unusable(Exception):
    """The file or the site-conf cannot be used; `status` is the exit status."""

    def __init__(self, status, text):
        Exception.__init__(self, text)
        self.status = status


def read_whole(path, say):
    """Read each record of a Data.fs; return its transactions, last tid and unfinished bytes.

    Also returns the number of its blobs, and how many of them lack their file.
    """
    with files.source(path) as source:
        count, last, said = 0, None, monotonic()
        blobs = missing = 0
        for transaction in source.transactions():
            count, last = count + 1, transaction.tid
            for oid in transaction.blobs():
                blobs += 1
                missing += not source.blobs.has(oid, transaction.tid)
            if monotonic() - said >= REPORT:
                said = monotonic()
                say({'transactions': count, 'fraction': source.fraction()})
        return {'transactions': count, 'unfinished': source.unfinished,
                'blobs': blobs, 'missing_blobs': missing,
                'last': None if last is None else last.encode('hex')}


def read_settings(site_conf):
    """Return the settings of an indico.conf, which is Python; {} without one."""
    if site_conf is None:
        return {}
    values = {}
    try:
        execfile(site_conf, values)
    except Exception as error:  # it is a program
        raise Unusable(2, '%s: %s: %s' % (site_conf, type(error).__name__, error))
    return dict((key, value) for key, value in values.items()
                if key[:1].isupper() and not callable(value))


def count_objects(root, marks):
    """Return the numbers of users, categories, events and contributions, and what is damaged."""
    counts, damaged = {'contributions': 0}, []
    for kind, index in (('users', 'avatars'), ('categories', 'categories'),
                        ('conferences', 'conferences')):
        objects = root.get(index, {})
        counts[kind] = len(objects)
        for number, (key, each) in enumerate(() if kind == 'categories' else objects.items()):
            if number % BATCH == 0:
                root._p_jar.cacheGC()
            try:
                if kind == 'users':
                    marks.see_user(each)
                else:
                    marks.see_conference(each)
                    counts['contributions'] += len(each.contributions)
            except (POSError, AttributeError) as error:
                damaged.append('%s %s: %s: %s' % (kind, key, type(error).__name__, error))
    for each in root.get('localidentities', {}).values():
        marks.see_identity(each)
    return counts, damaged


def check_archive(root, archive):
    """Return how many files are to be in ArchiveDir, and which of them are not there."""
    repository = root.get('local_repositories', {}).get('main')
    known = {} if repository is None else repository._MaterialLocalRepository__files
    files = [each for each in known.values() if isinstance(each, str)]  # others are in the database
    missing = []
    number = 0
    for path in files:
        if archive is None or not _exists(os.path.join(archive, path)):
            number += 1
            if len(missing) < NAMED:
                missing.append(path.decode('utf-8', 'replace'))
    return {'files': len(files), 'missing': number, 'named': missing}


def _exists(path):
    """Return True as Indico's repository finds the file, also by its Latin 1 name."""
    return os.path.exists(path) or os.path.exists(
        path.decode('utf-8', 'replace').encode('iso-8859-1', 'replace'))


def describe_rooms(root, info, settings):
    """Return whether room booking is active, its rooms here, and its own database's address."""
    address = getattr(info, '_roomBookingStorageParams', ROOMS)
    active = bool(getattr(info, '_roomBookingModuleActive', False))
    mine = settings.get('DBConnectionParams', MAIN)
    separate = active and tuple(address) != tuple(mine)
    return {'active': active, 'rooms': len(root.get('Rooms', ())),
            'reservations': len(root.get('Reservations', ())),
            'separate': '%s:%s' % tuple(address) if separate else None}


def describe_scheduler(root):
    """Return the scheduler that the database names as running, in words; None if none runs."""
    module = root.get('modules', {}).get('scheduler')
    if module is None or not getattr(module, '_schedulerStatus', False):
        return None
    host, process = getattr(module, '_hostname', None), getattr(module, '_pid', None)
    if host is None or process is None:  # before 1.2
        return 'its host is not recorded'
    return 'process %s of host %s' % (process, host)


def examine(path, site_conf, archive, say):
    """Return what is known of an existing Indico as a JSON object.

    Args:
        archive: ArchiveDir; None: the one in site_conf.
        say: called with a JSON object of progress.
    """
    settings = read_settings(site_conf)
    archive = archive or settings.get('ArchiveDir')
    found = read_whole(path, say)
    storage = FileStorage(path, read_only=True)
    database = None
    try:
        if not found['transactions']:
            raise Unusable(7, '%s is empty' % path)
        database = ZODB.DB(storage)
        database.classFactory = stand_ins.class_of
        root = database.open().root()
        if 'rootCategory' not in root and 'categories' not in root:
            raise Unusable(7, '%s holds no Indico' % path)
        info = root.get('MaKaCInfo', {}).get('main')
        marks = Marks(info)
        counts, damaged = count_objects(root, marks)
        found.update(
            counts=counts, damaged=damaged, release=marks.release(), why=marks.why(),
            other_identities=marks.other_identities, archive=archive,
            settings=sorted(settings), rooms=describe_rooms(root, info, settings),
            scheduler=describe_scheduler(root), timezone=getattr(info, '_tz', None),
            **check_archive(root, archive))
        return found
    finally:
        (database or storage).close()


def _say(progress):
    sys.stderr.write(json.dumps(progress, sort_keys=True) + '\n')
    sys.stderr.flush()


def main(arguments=None):
    """Examine one file; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='python -m indico_zodbrepl.dataplane.indico.examine',
        description='Examines the Data.fs of an existing Indico; changes nothing.')
    parser.add_argument('file', metavar='DATA.FS')
    parser.add_argument('--site-conf', metavar='FILE', help="the old site's indico.conf")
    parser.add_argument('--archive', metavar='DIR',
                        help='the folder of uploaded files (default: ArchiveDir of the site-conf)')
    options = parser.parse_args(arguments)
    # Keep the storage's own log messages off standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        print(json.dumps(examine(options.file, options.site_conf, options.archive, _say),
                         sort_keys=True))
        return 0
    except Unusable as error:
        return _failed(error, error.status)
    except (ConversionError, DataFileError) as error:
        return _failed(error, error.exit_code)
    except POSError as error:
        return _failed('%s: %s: %s' % (options.file, type(error).__name__, error), 4)
    except EnvironmentError as error:
        return _failed(error, 1)
    except KeyboardInterrupt:
        return _failed('interrupted', 130)


def _failed(why, status):
    sys.stderr.write('%s\n' % why)
    return status


if __name__ == '__main__':
    sys.exit(main())
