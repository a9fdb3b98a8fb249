"""The program that moves uploaded files between Indico's archive and the database.

usage: python -m indico_zodbrepl.dataplane.uploads COMMAND CONF [--archive FOLDER] [OPTIONS]

CONF is a ZODB configuration file.  Without FOLDER, the archive is that of the indico.conf that
INDICO_CONF names.  Without INDICO_CONF, entries of deleted files are not changed.

  survey   counts files; --unreferenced also those in the archive that no entry refers to
  import   archived files into the database
  export   files of the database into the archive; --to FOLDER copies them and changes no entry
  verify   reads the content of all files in the database and compares it with what is recorded

May be interrupted or killed and run again.  Progress goes to standard error, one JSON object a line;
see `progress`.  Prints one JSON object.

exit status: 0 done, 1 another failure, 2 wrong command line, 4 others kept changing the same
entries, 5 the database holds no Indico, 6 the storage is away or read-only, 8 another process has
the data file open, 9 a disk is full, 130 interrupted.
"""
from __future__ import absolute_import

import argparse
import collections
import json
import logging
import os
import sys

from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, ReadOnlyError, StorageError

from indico_zodbrepl.dataplane.uploads import database, entries
from indico_zodbrepl.dataplane.uploads.exporting import Export
from indico_zodbrepl.dataplane.uploads.importing import Import
from indico_zodbrepl.dataplane.uploads.progress import Progress
from indico_zodbrepl.dataplane.uploads.reading import reader_of
from indico_zodbrepl.dataplane.uploads.survey import Survey, amount
from indico_zodbrepl.dataplane.uploads.verifying import verify

BUSY, NO_INDICO, AWAY, LOCKED, FULL, INTERRUPTED = 4, 5, 6, 8, 9, 130
INDICO_CONF = 'INDICO_CONF'


def _arguments(arguments):
    parser = argparse.ArgumentParser(
        prog='python -m indico_zodbrepl.dataplane.uploads', description='Moves uploaded files.')
    parser.add_argument('command', choices=sorted(COMMANDS))
    parser.add_argument('conf', metavar='CONF')
    parser.add_argument('--archive', metavar='FOLDER')
    parser.add_argument('--to', metavar='FOLDER')
    parser.add_argument('--unreferenced', action='store_true')
    options = parser.parse_args(arguments)
    options.with_indico = INDICO_CONF in os.environ
    if options.archive is None and not options.with_indico:
        parser.error('neither --archive nor %s' % INDICO_CONF)
    return options


def _folders(options):
    """Return the folder of each repository by its name."""
    archive = offline = options.archive
    if archive is None:
        from indico.core.config import Config
        archive, offline = (Config.getInstance().getArchiveDir(),
                            Config.getInstance().getOfflineStore())
    return _same_for_all(archive, offline)


def _same_for_all(archive, offline):
    folders = collections.defaultdict(lambda: archive)
    folders.update({entries.MAIN: archive, entries.OFFLINE: offline})
    return folders


def _survey(opened, options, folders):
    return Survey(opened, folders).as_dict(options.unreferenced)


def _import(opened, options, folders):
    survey = Survey(opened, folders)
    archived = survey.changeable(survey.archived)
    with reader_of(opened.storage, options.conf) as digest_of:
        run = Import(opened, digest_of, folders, Progress(amount(archived)))
        run.missing += survey.missing
        run.run(archived)
    return run.as_dict()


def _export(opened, options, folders):
    survey = Survey(opened, folders)
    targets = folders if options.to is None else _same_for_all(options.to, options.to)
    stored = survey.stored if options.to is not None else survey.changeable(survey.stored)
    run = Export(opened, targets, Progress(amount(stored)), options.to is None)
    run.run(stored)
    return run.as_dict()


def _verify(opened, options, folders):
    survey = Survey(opened, folders)
    progress = Progress(amount(survey.stored))
    if not survey.stored:  # the storage may have no place for files
        return verify(opened, None, survey, progress)
    with reader_of(opened.storage, options.conf) as digest_of:
        return verify(opened, digest_of, survey, progress)


COMMANDS = {'survey': _survey, 'import': _import, 'export': _export, 'verify': _verify}


def main(arguments=None):
    """Run the program; return the exit status."""
    options = _arguments(arguments)
    # Keep the storages' own log messages off standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    if options.with_indico:
        import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
    folders = _folders(options)
    try:
        with database.opened(options.conf, options.with_indico) as opened, opened.interruptible():
            said = COMMANDS[options.command](opened, options, folders)
        print(json.dumps(dict(said, archive=folders[entries.MAIN]), sort_keys=True))
        return 0
    except KeyboardInterrupt:
        return _failed(u'interrupted', INTERRUPTED)
    except entries.NoIndico as error:
        return _failed(error, NO_INDICO)
    except database.Locked as error:
        return _failed(error, LOCKED)
    except database.Full as error:
        return _failed(error, FULL)
    except Exception as error:
        return _failed(database.in_words(error), _status_of(error))


def _status_of(error):
    if database.is_full(error):
        return FULL
    if isinstance(error, ConflictError):
        return BUSY
    away = isinstance(error, (ClientDisconnected, ReadOnlyError, StorageError))
    return AWAY if away else 1


def _failed(why, status):
    sys.stderr.write('%s\n' % why)
    return status


if __name__ == '__main__':
    sys.exit(main())
