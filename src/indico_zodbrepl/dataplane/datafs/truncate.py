"""Truncate a Data.fs, after copying the removed part."""
import contextlib
import errno
import fcntl
import json
import os
import time

import zc.lockfile
from ZODB.FileStorage import FileStorage

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.blobs import FOLDER, Blobs, blob_records, folder_of
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.export import EVERYTHING, boundary
from indico_zodbrepl.dataplane.datafs.failures import Changed, InUse, NoSuchTransaction, Occupied
from indico_zodbrepl.dataplane.datafs.shortened_index import save, shortened_index

CUT, INDEX, NOTE = 'cut.bin', 'cut.index', 'cut.json'


def truncate(path, after, keep, dry_run=False):
    """Remove what follows a transaction; a repeated call finishes an interrupted one.

    First the bytes (cut.bin) and the index (cut.index) are copied to the folder `keep`, with
    cut.json, which describes them: `cut.bin` appended to the file restores the old one.  A damaged
    end can be removed too.  The index is shortened (see `shortened_index`).  Then the blob files of removed
    transactions are moved to the folder `blobs` in `keep`, unless an export has copied them there.

    Args:
        path: of the Data.fs; no server may have it open.
        after: the tid of the last transaction to keep.
        keep: a folder, created if missing; it must not hold the copy of another truncation.
        dry_run: change nothing, only return what would be done.

    Returns a dict for JSON: offset and number of bytes removed, first and last tid and how many
    transactions, how many blobs they have, bytes of their files (blob_bytes), the folder kept,
    sha256 of cut.bin, and `done`.

    Raises DataFileError.
    """
    if after == EVERYTHING:
        raise NoSuchTransaction('at least one transaction has to stay')
    keep = os.path.abspath(keep)
    with locked(path, dry_run):
        cut = _plan(path, after)
        cut.update(keep=keep, sha256=None, done=False, after=after.encode('hex'))
        files = cut.pop('files')
        earlier = _earlier(keep)
        if earlier is not None:
            _check_earlier(earlier, cut, path, keep)
            files = earlier.pop('files', files)
            cut.update(earlier)
        if dry_run:
            return cut
        if earlier is None and cut['bytes']:
            _keep(path, cut, files, keep)
        if os.path.getsize(path) > cut['offset']:
            with DataFile(path, damaged=True) as data_file:
                index, position = shortened_index(data_file, cut['offset'])
            _cut(path, cut['offset'])
            if index is not None:
                save(index, position, path)
        blobs = Blobs(folder_of(path))
        for name in files:
            blobs.move(name, os.path.join(keep, FOLDER))
    if cut['bytes']:
        _open_as_storage(path, after)
    return dict(cut, done=True)


@contextlib.contextmanager
def locked(path, dry_run=False):
    """Hold the lock that a server holds on a Data.fs.  Raises InUse.

    A dry run only checks if another process has it, and writes nothing, not even its PID.
    """
    name = path + '.lock'
    if dry_run:
        if _is_held(name):
            raise _in_use(path)
        yield
        return
    try:
        lock = zc.lockfile.LockFile(name)
    except zc.lockfile.LockError:
        raise _in_use(path)
    try:
        yield
    finally:
        lock.close()


def _is_held(name):
    try:
        with open(name, 'rb') as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except IOError as error:
        if error.errno == errno.ENOENT:
            return False
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return True
        raise
    return False


def _in_use(path):
    return InUse('a server has %s open; stop it first' % path)


def _plan(path, after):
    with DataFile(path, damaged=True) as data_file:
        offset = boundary(data_file, after)
        plan = {'offset': offset, 'bytes': data_file.present_size() - offset,
                'transactions': 0, 'first': None, 'last': None, 'blobs': 0, 'files': []}
        for transaction in data_file.forward(offset):
            plan['transactions'] += 1
            plan['last'] = transaction.tid.encode('hex')
            plan['first'] = plan['first'] or plan['last']
            for record in blob_records(data_file, transaction):
                plan['blobs'] += 1
                name = data_file.blobs.name(record.oid, record.tid)
                plan['files'] += [] if name is None else [name]
        plan['blob_bytes'] = sum(map(data_file.blobs.size, plan['files']))
        return plan


def _earlier(keep):
    """Return the note of an earlier, interrupted run, if there is one."""
    try:
        with open(os.path.join(keep, NOTE)) as note:
            return json.load(note)
    except IOError as error:
        if os.path.exists(os.path.join(keep, NOTE)):
            raise error
        return None


def _check_earlier(earlier, cut, path, keep):
    """Raise Occupied if the kept copy is of another truncation than this one."""
    same = earlier['after'] == cut['after'] and earlier['offset'] == cut['offset']
    if same and cut['bytes']:
        same = disk.sha256(path, cut['offset']) == earlier['sha256']
    if not same:
        raise Occupied('%s holds another cut' % keep)


def _keep(path, cut, files, keep):
    if not os.path.isdir(keep):
        os.makedirs(keep, 0o700)
        disk.sync_folder(disk.parent(keep))
    cut['sha256'] = disk.write_file(os.path.join(keep, CUT), disk.blocks(path, cut['offset']))
    index = path + '.index'
    if os.path.exists(index):
        disk.write_file(os.path.join(keep, INDEX), disk.blocks(index))
    note = dict(cut, format=1, file=os.path.abspath(path), files=files, cut_at=time.strftime(
        '%Y-%m-%dT%H:%M:%SZ', time.gmtime()))
    disk.write_file(os.path.join(keep, NOTE), [json.dumps(note, indent=2, sort_keys=True)])


def _cut(path, offset):
    for suffix in ('.index', '.index.index_tmp', '.tmp'):
        disk.remove(path + suffix)
    disk.sync_folder(disk.parent(path))
    with open(path, 'r+b') as data_file:
        data_file.truncate(offset)
        data_file.flush()
        os.fsync(data_file.fileno())


def _open_as_storage(path, last):
    """Open it as a server will, which completes its index, or creates it from the whole file."""
    try:
        storage = FileStorage(path)
    except zc.lockfile.LockError:
        raise InUse('%s was cut, but then a server opened it' % path)
    try:
        found = storage.lastTransaction()
    finally:
        storage.close()
    if found != last:
        raise Changed('%s was cut and ends with %s, not %s' % (
            path, found.encode('hex'), last.encode('hex')))
