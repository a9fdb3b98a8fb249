"""Files in the archive, and requests that missed files, as Indico's health report has them."""
import os
import subprocess
import time

from BTrees.OOBTree import OOBTree
from persistent import Persistent
from ZODB.blob import Blob
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

from indico_zodbrepl.dataplane.indico.uploaded import (
    DAY, SHOWN, UploadedFiles, in_archive, remove_leftovers)
from indico_zodbrepl.dataplane.uploads.entries import FILES


class Repository(Persistent):
    """Stands for Indico's."""

    def __init__(self, values):
        setattr(self, FILES, OOBTree(dict((str(number), value) for number, value in enumerate(values))))


def test_files_in_the_archive_are_counted(tmpdir):
    db = DB(FileStorage(str(tmpdir.join('Data.fs')), blob_dir=str(tmpdir.join('blobs'))))
    with db.transaction() as connection:
        root = connection.root()
        blobs = [('path %d' % number, Blob(b'x'), 1, '', 0.0) for number in range(3)]
        root['local_repositories'] = OOBTree(
            {'main': Repository(['a'] * 1200 + blobs), 'offline': Repository(['b'])})
    assert 1201 == in_archive(db, pause=0)
    db.close()


def test_what_was_missed_is_reported_for_a_while_without_its_name(tmpdir):
    record, now = tmpdir.join('unavailable-files'), int(time.time())
    uploaded = UploadedFiles(None, False, str(record))
    nothing = {'files_in_archive': None, 'files_missing': 0, 'file_missing': ''}
    assert nothing == uploaded.report()
    record.write('%d old.pdf: lost\n%d 2026/C7/12/secret.pdf: No blob file\nnonsense\n' % (now - SHOWN - 1, now - SHOWN + 60))
    assert dict(nothing, files_missing=1, file_missing='a file of event 7') == uploaded.report()


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmpdir):
    ended = subprocess.Popen(['true'])
    ended.wait()
    old, fresh = tmpdir.join('BUCold'), tmpdir.join('BUCfresh')
    for each in (old, fresh, tmpdir.join('other'), tmpdir.join('files-%d-a' % ended.pid, 'talk.pdf'),
                 tmpdir.join('files-%d-a' % os.getpid(), 'talk.pdf')):
        each.write('x', ensure=True)
    old.setmtime(time.time() - DAY - 1)
    remove_leftovers(str(tmpdir))
    left = ['BUCfresh', 'files-%d-a' % os.getpid(), 'other']
    assert left == sorted(each.basename for each in tmpdir.listdir())
