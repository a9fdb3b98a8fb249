"""One process of a NEO cluster: master, storage or admin, as NEO's own program runs it.

usage: python -m indico_zodbrepl.dataplane.neo.node [--sqlite FILE] ROLE FOLDER OPTION...

Writes into FOLDER which process it is (see `process_mark`), brings the SQLite
database of a storage into write-ahead mode, and becomes neomaster, neostorage
or neoadmin with these options.  Ends at once if FOLDER is missing: a storage
whose disk was not mounted must not begin anew on another.

exit status: 2 wrong command line or no such folder, else that of NEO's program.
"""
from __future__ import absolute_import

import argparse
import os
import sqlite3
import sys

from . import process_mark

ROLES = ('master', 'storage', 'admin')


def write_ahead(path):
    """Makes SQLite write commits to a log beside the database first, from now on.

    That more than doubles NEO's rate of commits, and each is forced to disk as
    before.  No program may have the file open; it is made if there is none.
    Raises sqlite3.Error, also when the file system can't do it.
    """
    connection = sqlite3.connect(path)
    try:
        mode, = connection.execute('PRAGMA journal_mode=WAL').fetchone()
    finally:
        connection.close()
    if mode != 'wal':
        raise sqlite3.OperationalError(
            '%s: the journal mode stayed %s' % (path, mode))


def run(role, options):
    """Runs NEO's program of this role until it ends; it ends the process by SystemExit."""
    import importlib
    if role == 'master':
        from . import recovery
        recovery.install()
    elif role == 'storage':
        from . import registering
        registering.install()
    importlib.import_module('neo.scripts.neo' + role).main(options)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog='python -m indico_zodbrepl.dataplane.neo.node')
    parser.add_argument('--sqlite', metavar='FILE')
    parser.add_argument('role', choices=ROLES)
    parser.add_argument('folder', metavar='FOLDER')
    parser.add_argument('options', nargs=argparse.REMAINDER, metavar='OPTION')
    given = parser.parse_args(arguments)
    if not os.path.isdir(given.folder):
        parser.error('%s is no folder' % given.folder)
    if given.sqlite:
        write_ahead(given.sqlite)
    process_mark.write(given.folder)
    run(given.role, given.options)


if __name__ == '__main__':
    sys.exit(main())
