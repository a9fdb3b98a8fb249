"""The program that copies one database into another, with its history, and verifies the copy.

usage: python -m indico_zodbrepl.dataplane.convert SOURCE TARGET

Each is a Data.fs, by a path that ends in .fs, or a ZODB configuration file whose storage is
a RelStorage or NEO.  Nobody else may write either.  May be interrupted or killed at any
moment and run again: the target's content is compared with the source first,
and the copy continues after it.  Writes a JSON object to standard output at
the end, and progress (see `copying.Conversion`) as JSON objects, one a line,
to standard error; errors are one line there.

exit status: 0 done and verified, 1 another failure, 2 wrong command line, 3 no such file or
not readable, 4 a storage is away or no Data.fs, or failed, 5 a server has a file open,
6 the source lacks the file of a blob, or the target keeps no blobs, 7 the copy differs from the source, 8 the target holds other data,
9 too little space on the disk, 130 interrupted.
"""
import argparse
import errno
import json
import logging
import sys

from ZODB.POSException import POSError

from indico_zodbrepl.dataplane.convert import copying
from indico_zodbrepl.dataplane.convert.copying import Conversion
from indico_zodbrepl.dataplane.convert.failures import ConversionError
from indico_zodbrepl.dataplane.datafs.failures import DataFileError


def _say(progress):
    sys.stderr.write(json.dumps(progress, sort_keys=True) + '\n')
    sys.stderr.flush()


def main(arguments=None):
    """Run one conversion; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='python -m indico_zodbrepl.dataplane.convert',
        description='Copies a database with its history to another storage.')
    for name in ('source', 'target'):
        parser.add_argument(name, metavar=name.upper(),
                            help='a Data.fs, or a ZODB configuration file')
    options = parser.parse_args(arguments)
    # Keep the storages' own log messages off standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        with copying.source(options.source) as source, \
                copying.target(options.target) as target:
            print(json.dumps(Conversion(source, target, _say).run(), sort_keys=True))
        return 0
    except (ConversionError, DataFileError) as error:
        return _failed(error, error.exit_code)
    except EnvironmentError as error:
        return _failed(error, 9 if error.errno in (errno.ENOSPC, errno.EDQUOT) else 1)
    except POSError as error:
        return _failed('%s: %s' % (type(error).__name__, error), 4)
    except KeyboardInterrupt:
        return _failed('interrupted', 130)


def _failed(why, status):
    sys.stderr.write('%s\n' % why)
    return status


if __name__ == '__main__':
    sys.exit(main())
