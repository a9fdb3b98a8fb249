"""The backup program: answers as JSON on standard output, progress on standard error.

exit status: as that of `datafs`; 10 no backup, or none of that time, 11 the backup is damaged.
"""
import argparse
import errno
import json
import logging
import os
import sys

from indico_zodbrepl.dataplane.backup import received, sqlite, tail
from indico_zodbrepl.dataplane.backup.blobs import Store
from indico_zodbrepl.dataplane.backup.progress import Counted
from indico_zodbrepl.dataplane.backup.repository import Repository
from indico_zodbrepl.dataplane.datafs.failures import DataFileError

IDLE = 10  # niceness: other programs have priority


def _say(progress):
    sys.stderr.write(json.dumps(progress, sort_keys=True) + '\n')
    sys.stderr.flush()


def _back_up(options):
    repository = Repository(options.folder, _say)
    with repository.alone():
        return repository.back_up(options.file, options.full)


def _inspect(options):
    repository = Repository(options.folder, _say)
    with repository.alone():
        return repository.inspect(options.at)


def _recover(options):
    repository = Repository(options.folder, _say)
    with repository.alone():
        return repository.recover(options.target, options.at)


def _newest(options):
    return received.newest(options.folder)


def _missing(options):
    return received.missing(options.folder, options.file, options.begin)


def _add(options):
    return received.add(options.folder, options.file, options.begin, _say)


def _sweep(options):
    return {'removed': Store(options.folder, Counted(_say)).sweep()}


def _keep_blobs(options):
    return sqlite.keep(options.database, options.blobs, options.folder, options.list,
                       options.full, Counted(_say))


def _check_blobs(options):
    return sqlite.check(options.folder, options.list, Counted(_say))


def _restore_blobs(options):
    return sqlite.restore(options.folder, options.list, options.database, options.target,
                          Counted(_say))


def _newer(options):
    return tail.newer(options.file, options.tid.decode('hex'))


def _tail(options):
    return tail.export_tail(options.file, options.restored, options.to)


def _parser():
    parser = argparse.ArgumentParser(
        prog='python -m indico_zodbrepl.dataplane.backup',
        description='Backs up Data.fs files, and restores them.')
    commands = parser.add_subparsers(metavar='COMMAND')

    def command(name, action, explanation, *arguments):
        added = commands.add_parser(name, help=explanation, description=explanation)
        added.set_defaults(action=action)
        for each in arguments:
            added.add_argument(each, metavar=each.upper(), type=os.path.abspath)
        return added

    command('backup', _back_up, 'add to a folder what a Data.fs has more', 'file', 'folder') \
        .add_argument('--full', action='store_true')
    command('newest', _newest, 'what a received part of a Data.fs continues', 'folder')
    command('missing', _missing, 'which blob files a received part needs', 'folder', 'file') \
        .add_argument('--begin', metavar='BYTE', type=int, required=True)
    command('add', _add, 'make a received part of a Data.fs a backup', 'folder', 'file') \
        .add_argument('--begin', metavar='BYTE', type=int, required=True)
    command('keep-blobs', _keep_blobs, 'copy the blobs of an SQLite database', 'database',
            'blobs', 'folder', 'list').add_argument('--full', action='store_true')
    command('check-blobs', _check_blobs, 'whether the blobs of a list are whole', 'folder', 'list')
    command('restore-blobs', _restore_blobs, 'make a blob folder of a list', 'folder', 'list',
            'database', 'target')
    command('sweep', _sweep, 'remove blob files that no backup needs', 'folder')
    command('inspect', _inspect, 'whether a backup is whole', 'folder') \
        .add_argument('--at', metavar='YYYY-MM-DD-HH-MM-SS')
    command('recover', _recover, 'make a Data.fs of a backup', 'folder', 'target') \
        .add_argument('--at', metavar='YYYY-MM-DD-HH-MM-SS')
    command('newer', _newer, 'what a Data.fs has after a transaction', 'file') \
        .add_argument('tid', metavar='TID')
    command('tail', _tail, 'export what a file has and another one lacks', 'file', 'restored') \
        .add_argument('--to', metavar='FOLDER', required=True)
    return parser


def main(arguments=None):
    """Run one command; return the exit status."""
    options = _parser().parse_args(arguments)
    # Keep FileStorage's own log messages off standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    os.umask(0o077)
    os.nice(IDLE)
    try:
        answer = json.dumps(options.action(options), sort_keys=True)
        print(answer)
        return 0
    except DataFileError as error:
        return _failed(error, error.exit_code)
    except EnvironmentError as error:
        return _failed(error, 9 if error.errno in (errno.ENOSPC, errno.EDQUOT) else 1)
    except KeyboardInterrupt:
        return _failed('interrupted', 130)


def _failed(why, status):
    sys.stderr.write('%s\n' % why)
    return status


if __name__ == '__main__':
    sys.exit(main())
