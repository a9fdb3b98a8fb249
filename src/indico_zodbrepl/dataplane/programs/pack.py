"""The program that packs a storage, with a JSON object as its answer on standard output.

    python -m indico_zodbrepl.dataplane.programs.pack zodb.conf --days 7

`before` and `after` are the sizes that the storage reports, in bytes (null if
it reports none), and `seconds` is the duration of the pack.  The program exits
when the storage has been packed, which may take hours.  A server continues a
pack if this program is stopped.  An error is one line on standard error.

exit status: 0 done, 1 a failure, 2 wrong command line, 6 the storage is away, 8 another process has
it open, 9 incomplete: a copy was not packed, 130 interrupted.
"""
from __future__ import absolute_import

import argparse
import json
import logging
import sys
import time

import ZODB.config
from zc.lockfile import LockError
from ZEO.Exceptions import ClientDisconnected
from ZODB.serialize import referencesf

from indico_zodbrepl.dataplane.neo.errors import PackIncomplete
from indico_zodbrepl.dataplane.programs.clock import monotonic

SECONDS_A_DAY = 86400
AWAY, LOCKED, INCOMPLETE = 6, 8, 9


def pack(storage, days):
    """Remove from an open storage what was not current within that many days, and garbage."""
    began = monotonic()
    before = storage.getSize()
    storage.pack(time.time() - days * SECONDS_A_DAY, referencesf)
    return {'before': before, 'after': storage.getSize(), 'seconds': round(monotonic() - began, 1)}


def _arguments(arguments):
    parser = argparse.ArgumentParser(
        prog='python -m indico_zodbrepl.dataplane.programs.pack', description='Packs a storage.')
    parser.add_argument('path', help='the zodb.conf of a storage')
    parser.add_argument('--days', type=float, required=True,
                        help='keep what was current at any time since then')
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run the program; return the exit status."""
    options = _arguments(arguments)
    # Keep the storages' own log messages off standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        storage = ZODB.config.storageFromURL(options.path)
        try:
            print(json.dumps(pack(storage, options.days)))
        finally:
            storage.close()
        return 0
    except (LockError, ClientDisconnected) as error:
        if isinstance(getattr(error, 'cause', error), LockError):
            sys.stderr.write('another process has it open: %s\n' % error)
            return LOCKED
        sys.stderr.write('the storage is away: %s\n' % (error or error.__class__.__name__))
        return AWAY
    except PackIncomplete as error:
        sys.stderr.write('%s\n' % error)
        return INCOMPLETE
    except KeyboardInterrupt:
        sys.stderr.write('interrupted\n')
        return 130
    except Exception as error:
        sys.stderr.write('%s: %s\n' % (error.__class__.__name__, error))
        return 1


if __name__ == '__main__':
    sys.exit(main())
