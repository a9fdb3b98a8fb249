"""Count the uploaded files that are not in the database or could not be read, for the health report.

Counting reads every entry, so a thread does it, slowly, and again from time to time while files are
in the archive.
"""
from __future__ import absolute_import

import errno
import logging
import os
import re
import shutil
import threading
import time

from transaction import TransactionManager

from indico_zodbrepl.dataplane.uploads import entries

log = logging.getLogger(__name__)

SHOWN = 600  # seconds after which a file that was missed is no longer reported
DAY = 24 * 3600
LINKS = re.compile('files-([0-9]+)-')  # of Indico's module `indico.core.db.files`
UNCOMMITTED = 'BUC'  # ZODB's
AGAIN = 600  # seconds between two counts, while files are in the archive
BATCH = 500  # entries
PAUSE = 0.02  # seconds after a batch: requests come first


class UploadedFiles(object):
    """The uploaded files of an Indico instance; thread-safe.

    Args:
        db: the open `ZODB.DB`.
        counted: True if files in the archive are counted: new ones go into the database.
        record: path of the file in which Indico records what requests missed; see its module
            `indico.core.db.files`.
    """

    def __init__(self, db, counted, record):
        self._db = db
        self._record = record
        self._in_archive = None
        if counted:
            thread = threading.Thread(target=self._count, name='counting files')
            thread.setDaemon(True)
            thread.start()

    def report(self):
        """Return the fields of the health report, which anybody may see: no names of files."""
        missed = list(_missed(self._record, time.time() - SHOWN))
        return {'files_in_archive': self._in_archive, 'files_missing': len(missed),
                'file_missing': _described(missed[-1]) if missed else ''}

    def _count(self):
        while self._in_archive != 0:
            try:
                self._in_archive = in_archive(self._db)
            except Exception as error:  # the storage may be away, or closed
                log.info('uploaded files are not counted: %s: %s', type(error).__name__, error)
            time.sleep(AGAIN)


def in_archive(db, pause=PAUSE):
    """Return how many uploaded files are in the archive, by their entries in the database."""
    connection = db.open(TransactionManager())
    count = 0
    try:
        for repository in connection.root().get('local_repositories', {}).values():
            for number, value in enumerate(getattr(repository, entries.FILES).values()):
                count += entries.is_archived(value)
                if number % BATCH == BATCH - 1:
                    connection.cacheGC()
                    time.sleep(pause)
        return count
    finally:
        connection.close()


def remove_leftovers(folder):
    """Remove what killed processes left in the folder for temporary files of a cache of blobs.

    These are links for reading, whose names have the process id, and contents of uploads that were
    not committed; an upload that takes a day is taken for one that was interrupted.
    """
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        link = LINKS.match(name)
        if link and not os.path.exists('/proc/' + link.group(1)):
            shutil.rmtree(path, ignore_errors=True)
        elif name.startswith(UNCOMMITTED):
            _remove_old(path)


def _remove_old(path):
    try:
        if os.path.getmtime(path) < time.time() - DAY:
            os.remove(path)
    except OSError as error:
        if error.errno != errno.ENOENT:  # another instance was faster
            raise


def _described(missed):
    """Return whose file was missed, in words; `missed` begins with its path."""
    owner = entries.owner_of(missed.encode('utf-8'))
    return u'a file of %s' % owner if owner else u'a file'


def _missed(record, since):
    """Yield what requests missed since a time in seconds, the oldest first."""
    if not os.path.exists(record):
        return
    with open(record) as lines:
        for line in lines:
            at, _, what = line.rstrip('\n').partition(' ')
            if at.isdigit() and int(at) >= since:
                yield what.decode('utf-8', 'replace')
