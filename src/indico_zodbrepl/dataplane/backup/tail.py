"""Find what a data file, even a damaged one, has that a restored one lacks."""
import os
import shutil
import sys
import tempfile

from ZODB import fsrecover

from indico_zodbrepl.dataplane.datafs.blobs import folder_of
from indico_zodbrepl.dataplane.datafs.compare import compare
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.export import EVERYTHING, export
from indico_zodbrepl.dataplane.datafs.failures import Damaged
from indico_zodbrepl.dataplane.datafs.records import START, time_of

TOLD = 8  # users and descriptions


def newer(path, tid):
    """Count the transactions of a Data.fs after a given one, up to the first damage.

    Returns a dict for JSON: transactions, tid and time of the last one, `told` (who did what,
    of the newest few), `damage` (what is wrong with the file, or an empty text), bytes of the
    file, and bytes that come after damage, which are not counted.  Raises Missing.
    """
    told = {'transactions': 0, 'last': None, 'time': None, 'told': [], 'damage': '',
            'size': 0, 'unseen': 0}
    try:
        with DataFile(path, damaged=True) as data_file:
            told['size'] = data_file.size
            position = START
            try:
                for transaction in data_file.forward():
                    position = transaction.end
                    if transaction.tid > tid:
                        _add(told, data_file, transaction)
                    told.update(last=transaction.tid.encode('hex'),
                                time=time_of(transaction.tid))
                DataFile(path).close()
            except Damaged as error:
                told.update(damage=str(error), unseen=data_file.size - position)
    except Damaged as error:
        size = os.path.getsize(path)
        told.update(damage=str(error), size=size, unseen=size)
    return told


def _add(told, data_file, transaction):
    for record in data_file.records(transaction):
        data_file.data_at(record)
    told['transactions'] += 1
    text = b' '.join(filter(None, (
        transaction.user.strip(b'/ '), transaction.description.strip())))
    told['told'] = told['told'][1 - TOLD:] + [
        '%s  %s' % (time_of(transaction.tid), text.decode('utf-8', 'replace'))]


def export_tail(present, restored, folder):
    """Export what one Data.fs has and another one lacks, while nobody writes to either.

    Of a damaged file, everything that ZODB's fsrecover can read is exported.

    Args:
        present: path of the file to be replaced; it may be missing.
        restored: path of the file that replaces it.
        folder: for `datafs export`; created only if there is something to export.

    Returns a dict for JSON: transactions, the folder or None, damage as in `newer`, `unread`
    (bytes of the damaged file that nothing could be made of), and the common tid or None.
    """
    told = {'transactions': 0, 'folder': None, 'damage': '', 'unread': 0, 'common': None}
    if not os.path.exists(present):
        return dict(told, damage='%s: there is no such file' % present)
    try:
        return dict(told, **_export(present, restored, folder, present))
    except Damaged as error:
        told['damage'] = str(error)
    size = os.path.getsize(present)
    scratch = tempfile.mkdtemp(prefix='readable-', dir=os.path.dirname(os.path.abspath(restored)))
    try:
        readable = os.path.join(scratch, 'Data.fs')
        if not recover(present, readable):
            return dict(told, unread=size)
        if os.path.isdir(folder_of(present)):
            os.symlink(os.path.abspath(folder_of(present)), folder_of(readable))
        with DataFile(readable) as found:
            told['unread'] = max(0, size - found.size)
            if found.end == START:
                return told
        return dict(told, **_export(readable, restored, folder, present))
    finally:
        shutil.rmtree(scratch)


def _export(path, restored, folder, named):
    found = compare(path, restored)
    lacking = found['private'] + found['conflicting']
    common = found['common'] and found['common']['tid']
    if found['relation'] == 'empty' or not lacking and found['relation'] != 'unrelated':
        return {'common': common}
    after = common.decode('hex') if common else EVERYTHING
    done = export(path, after, folder, named)
    return {'common': common, 'transactions': done['transactions'], 'folder': done['folder']}


def recover(path, target):
    """Copy the readable transactions of a damaged Data.fs; return True if there are any."""
    output, sys.stdout = sys.stdout, open(os.devnull, 'w')
    fsrecover.scan = scan
    fsrecover.truncate = lambda *_arguments: None  # the file itself is kept
    try:
        fsrecover.recover(path, target)
        return True
    except SystemExit:  # the magic number of a Data.fs is missing too
        return False
    finally:
        sys.stdout.close()
        sys.stdout = output


def scan(opened, position):
    """Return the position where the next transaction may begin, or 0.

    It replaces fsrecover's own, which never ends if one of the last bytes is a '.'.
    """
    while True:
        opened.seek(position)
        data = opened.read(1 << 16)
        if len(data) < 9:
            return 0
        found = data.find(b'.', 0, len(data) - 8)
        while found >= 0:
            length, = fsrecover.unpack('>Q', data[found + 1:found + 9])
            if 0 < length < position + found:
                return position + found + 9
            found = data.find(b'.', found + 1, len(data) - 8)
        position += len(data) - 8
