"""The blobs of RelStorage's database in an SQLite file, in a folder of backups."""
from __future__ import absolute_import

import os
import sqlite3

from ZODB.blob import is_blob_record
from ZODB.utils import p64

from indico_zodbrepl.dataplane.backup import blobs
from indico_zodbrepl.dataplane.backup.pieces import NotWhole
from indico_zodbrepl.dataplane.backup.repository import check_space
from indico_zodbrepl.dataplane.datafs.blobs import LONGEST, Blobs

_RECORDS = 'SELECT zoid, tid, state FROM object_state WHERE length(state) <= %d' % LONGEST


def revisions(database):
    """Return oid and tid of each blob in a database file that nobody writes to."""
    connection = sqlite3.connect(database)
    try:
        return [(p64(oid), p64(tid)) for oid, tid, state in connection.execute(_RECORDS)
                if is_blob_record(bytes(state))]
    finally:
        connection.close()


def keep(database, source, folder, path, verify, count):
    """Copy the blobs of a database file that the folder of backups lacks, and write their list.

    Args:
        database: path of a copy, which nobody writes to.
        source: folder of the blobs.
        folder: of the backups.
        path: of the list.
        verify, count: as for `blobs.Store`.

    Returns a dict for JSON: number and bytes of the blobs.  Raises BlobLost, NoSpace.
    """
    os.chdir(folder)
    found = revisions(database)
    number, size = blobs.Store('.', count).add(Blobs(source), found, path, verify, check_space)
    return {'blobs': number, 'blob_bytes': size}


def check(folder, path, count):
    """Read the blobs of a list; return a dict for JSON: their number and bytes, and `problems`."""
    kept = blobs.listed(path) if os.path.exists(path) else []
    total = sum(each.bytes for each in kept)
    count.begin('checked', total)
    return {'problems': blobs.Store(folder, count).problems(kept),
            'blobs': len(kept), 'blob_bytes': total}


def restore(folder, path, database, target, count):
    """Copy the blobs of a list to a new blob folder, if they are those of a database file.

    Returns as `keep`.  Raises NotWhole.
    """
    kept = blobs.listed(path) if os.path.exists(path) else []
    known = set(each.path for each in kept)
    for oid, tid in revisions(database):
        if blobs.path_of(oid, tid) not in known:
            raise NotWhole('the backup has no file of a blob: %s' % blobs.path_of(oid, tid))
    blobs.Store(folder, count).restore(kept, target)
    return {'blobs': len(kept), 'blob_bytes': sum(each.bytes for each in kept)}
