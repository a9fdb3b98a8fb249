"""The program that sums up a database, with one JSON object as its answer on standard output.

    python -m indico_zodbrepl.dataplane.stats.program file Data.fs
    python -m indico_zodbrepl.dataplane.stats.program storage zodb.conf

Progress goes to standard error, one JSON object per line: `done` of `total` (bytes of the file, or
objects; `total` is null if unknown) and the `records` read.  The program writes nothing, and
imports no class of the application.  An error is one line on standard error.

exit status: 0 done, 1 a failure, 2 wrong command line, 3 no such file, 4 a damaged Data.fs, 6 the
storage is away, 7 the file was changed while it was read, 130 interrupted.
"""
from __future__ import absolute_import

import argparse
import json
import logging
import signal
import sys

from ZEO.Exceptions import ClientDisconnected

from indico_zodbrepl.dataplane.datafs.failures import DataFileError
from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.stats import walks

EVERY = 0.5  # seconds
AWAY = 6


class Progress(object):
    """A reporter of the walk's progress, at most twice a second.

    Args:
        write: called with a line of text.
    """

    def __init__(self, write, clock=monotonic):
        self._write = write
        self._clock = clock
        self._next = clock() + EVERY
        self.records = 0

    def __call__(self, done, total, records):
        """Note the progress: done, total (None: unknown), and the records since the last call."""
        self.records += records
        now = self._clock()
        if now >= self._next:
            self._next = now + EVERY
            self._write(json.dumps({'done': done, 'total': total, 'records': self.records}) + '\n')


def _tell(line):
    sys.stderr.write(line)
    sys.stderr.flush()


def statistics(options, progress):
    """Walk the database that the command line names; return the program's answer."""
    began = monotonic()
    if options.kind == 'file':
        sums, largest, found = walks.walk_file(options.path, options.top, progress)
    else:
        sums, largest, found = walks.walk(
            options.path, options.top, progress, not options.no_history)
    return dict(found, objects=sums.objects, bytes=sums.bytes, revisions=sums.revisions,
                revision_bytes=sums.revision_bytes, classes=sums.classes(), modules=sums.modules(),
                largest=largest, records=progress.records, seconds=round(monotonic() - began, 3))


def _arguments(arguments):
    parser = argparse.ArgumentParser(prog='python -m indico_zodbrepl.dataplane.stats.program',
                                     description='Sums the objects of a database.')
    parser.add_argument('kind', choices=('file', 'storage'))
    parser.add_argument('path', help='a Data.fs, or the zodb.conf of a storage')
    parser.add_argument('--top', type=int, default=20, help='how many of the largest objects to tell')
    parser.add_argument('--no-history', action='store_true',
                        help='of a storage: read each object once, as it is now')
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run the program; return the exit status."""
    options = _arguments(arguments)
    # Keep the storages' own log messages off standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(json.dumps(statistics(options, Progress(_tell)), sort_keys=True))
        return 0
    except DataFileError as error:
        sys.stderr.write('%s\n' % error)
        return error.exit_code
    except ClientDisconnected as error:
        sys.stderr.write('the storage is away: %s\n' % (error or error.__class__.__name__))
        return AWAY
    except KeyboardInterrupt:
        sys.stderr.write('interrupted\n')
        return 130


if __name__ == '__main__':
    sys.exit(main())
