"""Compare the records of blobs in a Data.fs with the files in the folder beside it."""
from __future__ import absolute_import

import os

from indico_zodbrepl.dataplane.datafs.blobs import MARKER, blob_records, tid_of
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Changed

OLD = '.old'  # appended to the folder's name: where a pack keeps what it removes until the next one
ATTEMPTS = 5
READ = 64 << 20  # bytes of the data file that a check of the newest blobs reads


def audit(path, newest=None, put_aside=False):
    """Find blobs without a file and files without a transaction.

    A server may have the file open.  Of an object only the newest revision counts as missing: older
    ones, and those of objects that nothing refers to, may lack their files after a pack of the node
    that they came from.

    Args:
        path: of the Data.fs.
        newest: check only so many of the newest blobs, found in the last 64 MB of the file.  If the
            folder was never used by a server, all of the file is searched for one of them.  None
            for all blobs, and for files without a transaction.
        put_aside: move the files without a transaction to the folder `blobs.old`, in which a pack
            keeps what it removes until the next one.

    Returns a dict for JSON: blobs and bytes, of the records whose files are there; missing, and the
    newest of these, first_missing: oid, tid and path of its file; unreferenced, unreferenced_bytes
    and first_unreferenced, a path, of the files without a transaction.  Paths are inside the folder.

    Raises DataFileError.
    """
    for _ in range(ATTEMPTS):
        with DataFile(path) as data_file:
            found, left = _audit(data_file, newest)
            if data_file.replaced():
                continue
            for name in left if put_aside else ():
                data_file.blobs.put_aside(name, data_file.blobs.folder + OLD)
            return found
    raise Changed('%s is packed again and again' % path)


def _audit(data_file, newest):
    blobs = data_file.blobs
    found = {'blobs': 0, 'bytes': 0, 'missing': 0, 'first_missing': None, 'unreferenced': 0,
             'unreferenced_bytes': 0, 'first_unreferenced': None}
    was_used = os.path.exists(os.path.join(blobs.folder, MARKER))
    seen, referenced = set(), set()
    for transaction in data_file.backward():
        if newest is not None and was_used and data_file.end - transaction.position > READ:
            break
        for record in blob_records(data_file, transaction):
            name = blobs.name(record.oid, record.tid)
            size = None if name is None else blobs.size(name)
            if size is not None:
                found['blobs'] += 1
                found['bytes'] += size
                referenced.add(name)
            elif record.oid not in seen:
                _note_missing(found, blobs, record)
            seen.add(record.oid)
        if newest is not None and len(seen) >= newest:
            break
    left = [] if newest is not None else list(_unreferenced(data_file, referenced))
    found['unreferenced'] = len(left)
    found['unreferenced_bytes'] = sum(blobs.size(name) or 0 for name in left)
    found['first_unreferenced'] = min(left) if left else None
    return found, left


def _note_missing(found, blobs, record):
    found['missing'] += 1
    found['first_missing'] = found['first_missing'] or {
        'oid': record.oid.encode('hex'), 'tid': record.tid.encode('hex'),
        'path': blobs.path(record.oid, record.tid)}


def _unreferenced(data_file, referenced):
    """Yield the files without a transaction; one of a commit under way is newer than the last."""
    last = data_file.last()
    for name in data_file.blobs.names():
        if name not in referenced and last is not None and tid_of(name) <= last.tid:
            yield name
