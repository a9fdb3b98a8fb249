"""The files of a repozo repository: full and incremental pieces, and their lists.

A piece is a part of a Data.fs, named by the moment at which it was made.  A list (.dat) has one
line for a full piece and each incremental one after it: name, begin, end and MD5.  repozo names a
piece before it lists it, so an interrupted backup leaves a piece that no list names.  The list of
its blobs (.blobs) is there before the piece; a piece of an earlier release has none.
"""
from __future__ import absolute_import

import collections
import gzip
import os
import re
import time

from ZODB.scripts import repozo

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.failures import DataFileError
from indico_zodbrepl.dataplane.datafs.records import NUMBER

LIST, INDEX, BLOBS, UNFINISHED = '.dat', '.index', '.blobs', 'tmp.tmp'
RECEIVED = re.compile(r'received-\d+\.part$')  # of another host; host.backup_datafs names it
FULL = ('.fs', '.fsz')

Piece = collections.namedtuple('Piece', 'name begin end md5')


def listed(path):
    """Return the pieces of a list, without an incomplete last line."""
    try:
        with open(path) as lines:
            rows = [line.split() for line in lines if line.endswith('\n')]
    except IOError:
        return []
    return [Piece(os.path.basename(row[0]), int(row[1]), int(row[2]), row[3])
            for row in rows if len(row) == 4]


def data_files(folder):
    """Return the names of all pieces in a folder, the oldest first."""
    return sorted(filter(repozo.is_data_file, os.listdir(folder)))


def list_of(folder, name):
    """Return the path of the list that a full piece begins."""
    return os.path.join(folder, os.path.splitext(name)[0] + LIST)


def write_list(path, pieces):
    """Replace a list; one without pieces is removed."""
    if pieces:
        disk.write_file(path, [b'%s %d %d %s\n' % each for each in pieces])
    else:
        disk.remove(path)


def settle(folder):
    """Remove what an interrupted backup left; return the names of the pieces it removed."""
    lists = [name for name in os.listdir(folder) if re.match(r'\d{4}(-\d\d){5}\.dat$', name)]
    named = set()
    for name in lists:
        path = os.path.join(folder, name)
        pieces = [each for each in listed(path)
                  if os.path.exists(os.path.join(folder, each.name))]
        named.update(each.name for each in pieces)
        with open(path) as lines:
            torn = not lines.read().endswith('\n')
        if torn:
            write_list(path, pieces)
    left = [name for name in data_files(folder) if name not in named]
    for name in left:
        remove(folder, name)
    disk.remove(os.path.join(folder, UNFINISHED))
    stems = set(os.path.splitext(name)[0] for name in data_files(folder))
    for name in os.listdir(folder):
        stem, extension = os.path.splitext(name)
        if extension in (INDEX, BLOBS) and stem not in stems:
            disk.remove(os.path.join(folder, name))
    return left


def drop_received(folder):
    """Remove what a backup of another host's node received before it was interrupted."""
    for name in filter(RECEIVED.match, os.listdir(folder)):
        disk.remove(os.path.join(folder, name))


def remove(folder, name):
    """Remove a piece, its index, and its list of blobs."""
    for extension in (INDEX, BLOBS):
        disk.remove(os.path.join(folder, os.path.splitext(name)[0] + extension))
    disk.remove(os.path.join(folder, name))


def blobs_of(folder, name):
    """Return the path of the list of a piece's blobs."""
    return os.path.join(folder, os.path.splitext(name)[0] + BLOBS)


def last_tid(folder, piece):
    """Return the tid (8 bytes) of a piece's last transaction, by the length at its end."""
    path = os.path.join(folder, piece.name)
    opened = gzip.open(path, 'rb') if path.endswith('z') else open(path, 'rb')
    try:
        size = piece.end - piece.begin
        opened.seek(size - NUMBER.size)
        length, = NUMBER.unpack(opened.read(NUMBER.size))
        opened.seek(size - NUMBER.size - length)
        return opened.read(8)
    finally:
        opened.close()


def moment(name):
    """Return the time at which a piece was made, according to its name, in ISO 8601."""
    date = os.path.splitext(name)[0].split('-')
    return '%s-%s-%sT%s:%s:%sZ' % tuple(date)


def wait_for_a_new_name():
    """Wait for a second without a backup; raise DataFileError if the newest is from the future."""
    while True:
        now = repozo.gen_filename(None, ext='')
        newest = ([''] + [os.path.splitext(name)[0] for name in data_files('.')])[-1]
        if newest < now:
            return
        if newest > now:
            raise DataFileError('the newest backup, %s, is of the future: is the clock wrong?'
                                % newest)
        time.sleep(0.05)


class NoBackup(DataFileError):
    """The folder has no backup, or none from that time."""

    exit_code = 10


class NotWhole(DataFileError):
    """A backup is damaged or incomplete."""

    exit_code = 11
