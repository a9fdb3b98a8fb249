"""Add a part of a Data.fs that was received from another host to a repozo repository.

The caller holds the lock of the folder, and fetches what `newest` says is missing.
"""
from __future__ import absolute_import

import os

from ZODB.scripts import repozo

from indico_zodbrepl.dataplane.backup import blobs, contents, pieces, repository
from indico_zodbrepl.dataplane.backup.pieces import Piece
from indico_zodbrepl.dataplane.backup.progress import Counted
from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.blobs import FOLDER
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Changed, Damaged
from indico_zodbrepl.dataplane.datafs.records import time_of
from indico_zodbrepl.dataplane.programs.clock import monotonic

COMPRESSED = 'z'


def newest(folder):
    """Remove what an interrupted backup left; return the newest backup that can be continued.

    Returns a dict for JSON: name of its last piece, begin and end of that piece in the data file,
    tid and time of its last transaction, `removed`.  The name is empty if the next backup has to be full.
    """
    removed = pieces.settle(folder)
    chain = _chain(folder)
    whole = chain and all(os.path.exists(os.path.join(folder, each.name)) for each in chain)
    if not whole or any(each.name.endswith(COMPRESSED) for each in chain):
        return {'name': '', 'begin': 0, 'end': 0, 'tid': '', 'time': '', 'removed': removed}
    last = chain[-1]
    tid = pieces.last_tid(folder, last)
    return {'name': last.name, 'begin': last.begin, 'end': last.end, 'tid': tid.encode('hex'),
            'time': time_of(tid), 'removed': removed}


def missing(folder, path, begin):
    """Return the blob files that a received part of a data file needs and the folder lacks.

    Args:
        path, begin: as for `add`.

    Returns a dict for JSON: `missing`, a list of paths in the folder of backups.  Raises Damaged.
    """
    os.chdir(folder)
    count = Counted(lambda progress: None)
    piece = Piece('', begin, begin + os.path.getsize(path), '')
    chain = _chain_to('.', begin)
    with _Parts(chain, path, piece) as all_:
        found = contents.of_next_piece(all_, chain, piece.end, count).blobs
    lacking = blobs.Store('.', count).missing(found)
    return {'missing': [os.path.join(FOLDER, each) for each in lacking]}


def add(folder, path, begin, say):
    """Make a received file the next piece, after all of its transactions were checked.

    Args:
        path: of the file, in the folder.  The files of its blobs are there already.
        begin: its position in the data file; 0 for a full backup.
        say: called with dicts of progress.

    Returns as `Repository.back_up`, without `removed`.  Raises Damaged, NotWhole.
    """
    started = monotonic()
    os.chdir(folder)  # repozo can't read its own lists if a path in them has blanks
    pieces.wait_for_a_new_name()
    chain = _chain_to('.', begin)
    count = Counted(say)
    repozo.READCHUNK = repository.BLOCK
    repozo.dofile = count.counting(repozo.dofile)
    size = os.path.getsize(path)
    count.begin('verified', 2 * size)
    md5, _ = repozo.get_checksum_and_size_of_file(path, False)
    stem = os.path.splitext(repozo.gen_filename(None, ext=''))[0]
    name = stem + ('.deltafs' if begin else '.fs')
    piece = Piece(name, begin, begin + size, md5)
    store = blobs.Store('.', count)
    with _Parts(chain, path, piece) as all_:
        found = contents.of_next_piece(all_, chain, piece.end, count)
        tid = all_.last().tid
    number, files = store.list_received(found.blobs, pieces.blobs_of('.', name))
    # As repozo does it: a piece that no list names is what an interrupted backup left.
    os.rename(path, name)
    pieces.write_list(pieces.list_of('.', chain[0].name if chain else name), chain + [piece])
    disk.sync_folder('.')
    if not begin:
        store.sweep()
    return {'kind': 'incremental' if begin else 'full', 'name': name, 'bytes': size,
            'whole': piece.end, 'tid': tid.encode('hex'), 'time': time_of(tid),
            'blobs': number, 'blob_bytes': files, 'seconds': round(monotonic() - started, 3)}


def _chain_to(folder, begin):
    """Return the pieces of the newest backup if it ends at a position.  Raises Changed."""
    chain = _chain(folder) if begin else []
    if begin and (not chain or chain[-1].end != begin):
        raise Changed('the backups in %s changed meanwhile' % os.path.abspath(folder))
    return chain


def _chain(folder):
    full = [name for name in pieces.data_files(folder) if name.endswith(pieces.FULL)]
    return pieces.listed(pieces.list_of(folder, full[-1])) if full else []


class _Parts(DataFile):
    """A data file in several parts, none of them compressed.

    Args:
        chain: the pieces before, in the working directory.
        path: of the last part.
        piece: its Piece.

    Raises Damaged if it ends within a transaction.
    """

    def __init__(self, chain, path, piece):
        parts = [(os.path.join('.', each.name), each) for each in chain] + [(path, piece)]
        self._parts = [(open(path, 'rb'), piece) for path, piece in parts]
        self._window, self._begin = b'', 0
        self.path, self.end = parts[-1][0], parts[-1][1].end
        self.size = self.end
        if self.last() is None:
            raise Damaged(self.path, self.end, 'it ends within a transaction')

    def close(self):
        for opened, _piece in self._parts:
            opened.close()

    def present_size(self):
        return self.size

    def raw(self, position, length):
        found = []
        for opened, piece in self._parts:
            if length > 0 and piece.begin <= position < piece.end:
                opened.seek(position - piece.begin)
                found.append(opened.read(min(length, piece.end - position)))
                position, length = position + len(found[-1]), length - len(found[-1])
        return b''.join(found)
