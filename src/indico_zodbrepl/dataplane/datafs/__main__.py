"""The program: answers as JSON on standard output, errors as one line on standard error.

exit status: 0 done, 1 another failure, 2 wrong command line, 3 no such file, 4 damaged or
no Data.fs, 5 a server has it open, 6 no such transaction, 7 changed while it was read,
8 something is where the result is to go, 9 too little space on the disk, 11 the connection to the
other host was lost, 130 interrupted.
"""
import argparse
import contextlib
import json
import logging
import sys

from indico_zodbrepl.dataplane.datafs.blob_audit import audit
from indico_zodbrepl.dataplane.datafs.compare import compare
from indico_zodbrepl.dataplane.datafs.copying import copy
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.export import export
from indico_zodbrepl.dataplane.datafs.failures import DataFileError, NoSuchTransaction
from indico_zodbrepl.dataplane.datafs.messages import Connection
from indico_zodbrepl.dataplane.datafs.records import digest, time_of
from indico_zodbrepl.dataplane.datafs.serving import Server
from indico_zodbrepl.dataplane.datafs.truncate import truncate


def last(options):
    """Describe the last complete transaction."""
    with DataFile(options.file) as data_file:
        transaction = data_file.last()
        return {
            'tid': transaction and transaction.tid.encode('hex'),
            'time': transaction and time_of(transaction.tid),
            'end': data_file.end,
            'size': data_file.size,
        }


def digest_of(options):
    """Identify the content of one transaction."""
    with DataFile(options.file) as data_file:
        transaction = data_file.find(options.tid)
        if transaction is None or transaction.tid != options.tid:
            raise NoSuchTransaction('%s has no transaction %s' % (
                options.file, options.tid.encode('hex')))
        return {'tid': options.tid.encode('hex'), 'digest': digest(data_file, transaction)}


def _compare(options):
    arguments = options.file, options.upstream, options.verified, options.fork
    if options.upstream_socket is None:
        return compare(*arguments, damaged=options.damaged)
    with contextlib.closing(
            Connection.of_descriptor(options.upstream_socket, options.upstream)) as connection:
        return compare(*arguments, connection=connection, damaged=options.damaged)


def _audit(options):
    return audit(options.file, options.newest, options.put_aside)


def _serve(options):
    Server(options.file, Connection.of_descriptor(options.socket, 'the comparison')).run()
    return {}


def _export(options):
    return export(options.file, options.after, options.to, with_blobs=not options.no_blobs,
                  damaged=options.damaged)


def _truncate(options):
    return truncate(options.file, options.after, options.keep, options.dry_run)


def _copy(options):
    return copy(options.source, options.target, _tell_progress)


def _tell_progress(progress):
    sys.stderr.write(json.dumps(progress, sort_keys=True) + '\n')
    sys.stderr.flush()


def _tid(text):
    if len(text) != 16:
        raise argparse.ArgumentTypeError('%r is not 16 hexadecimal digits' % text)
    try:
        return text.decode('hex')
    except TypeError:
        raise argparse.ArgumentTypeError('%r is not 16 hexadecimal digits' % text)


def _parser():
    parser = argparse.ArgumentParser(
        prog='python -m indico_zodbrepl.dataplane.datafs',
        description='Reads, compares, exports, cuts and copies Data.fs files.')
    commands = parser.add_subparsers(metavar='COMMAND')

    def command(name, action, explanation, *files):
        added = commands.add_parser(name, help=explanation, description=explanation)
        added.set_defaults(action=action)
        for each in files:
            added.add_argument(each, metavar=each.upper())
        return added

    command('last', last, 'the last complete transaction', 'file')
    command('digest', digest_of, "what identifies a transaction's content", 'file') \
        .add_argument('tid', metavar='TID', type=_tid)
    compared = command('compare', _compare, 'how two histories relate', 'file', 'upstream')
    compared.add_argument('--verified', metavar='TID', type=_tid,
                          help='the two are known to be the same up to there')
    compared.add_argument('--fork', metavar='TID', type=_tid,
                          help='the upstream had all of the file up to there, and no more')
    compared.add_argument('--upstream-socket', metavar='NUMBER', type=int,
                          help='descriptor of a connection to `serve` for the upstream, '
                          'which is on another host')
    _add_damaged(compared)
    audited = command('audit-blobs', _audit, 'blobs without a file, and files without a transaction',
                      'file')
    audited.add_argument('--newest', metavar='NUMBER', type=int,
                         help='check only so many of the newest blobs')
    audited.add_argument('--put-aside', action='store_true',
                         help='move files without a transaction to the folder blobs.old')
    command('serve', _serve, 'answer a comparison on another host', 'file').add_argument(
        '--socket', metavar='NUMBER', type=int, required=True,
        help='descriptor of the connection to it')
    exported = command('export', _export, 'the end of a file, in a folder of its own', 'file')
    _add_after(exported)
    exported.add_argument('--to', metavar='FOLDER', required=True)
    exported.add_argument('--no-blobs', action='store_true',
                          help='leave the blob files out, for a list only')
    _add_damaged(exported)
    cut = command('truncate', _truncate, 'cut off the end, after keeping it', 'file')
    _add_after(cut)
    cut.add_argument('--keep', metavar='FOLDER', required=True)
    cut.add_argument('--dry-run', action='store_true', help='only tell what would be cut')
    command('copy', _copy, 'copy a file that a server may be writing', 'source', 'target')
    return parser


def _add_after(parser):
    parser.add_argument('--after', metavar='TID', type=_tid, required=True,
                        help='the last transaction before that end')


def _add_damaged(parser):
    parser.add_argument('--damaged', action='store_true', help='ignore a damaged end of the file')


def main(arguments=None):
    """Run one command; return the exit status."""
    options = _parser().parse_args(arguments)
    # Keep FileStorage's own log messages off standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        print(json.dumps(options.action(options), sort_keys=True))
        return 0
    except DataFileError as error:
        sys.stderr.write('%s\n' % error)
        return error.exit_code
    except EnvironmentError as error:
        sys.stderr.write('%s\n' % error)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write('interrupted\n')
        return 130


if __name__ == '__main__':
    sys.exit(main())
