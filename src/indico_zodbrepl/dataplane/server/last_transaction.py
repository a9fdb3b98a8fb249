"""Write the last transaction of a data file to the disk again before it is used.

An earlier process may have ended because the disk could not synchronise it.  Linux takes what it
could not write for clean: the transaction can be read, the next synchronisation succeeds, and a
loss of power leaves a hole in the file (Rebello et al., "Can Applications Recover from fsync
Failures?", USENIX ATC 2020).  Only what is written again gets to the disk.  FileStorage
synchronises each transaction, and a server ends after the first failure (see `failed_finish`), so
that this can concern the last one alone.  It also covers a process that was killed between the last
write and its synchronisation.
"""
from __future__ import absolute_import

import logging
import os
import time

from ZODB.FileStorage import FileStorage

from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.zrs.repairs import BEGINNING, beginning_of

logger = logging.getLogger('zodbrepl.server')

PATIENCE = 10.0  # seconds
PAUSE = 0.5
PIECE = 1 << 20

_stock_init = FileStorage.__init__


class NotOnDisk(Exception):
    """The last transaction can't be written to the disk."""


def install():
    """Let each FileStorage of this process do that when it opens a file; may be called repeatedly.

    Opening raises NotOnDisk if the disk fails for PATIENCE.
    """
    FileStorage.__init__ = _init


def _init(storage, *arguments, **options):
    _stock_init(storage, *arguments, **options)
    if storage._is_read_only:
        return
    path, deadline, told = storage.getName(), monotonic() + PATIENCE, False
    while True:
        try:
            return write_again(path, storage._pos)
        except EnvironmentError as error:
            if monotonic() >= deadline:
                raise NotOnDisk('the last transaction of %s can not be written to the disk: %s'
                                % (path, error.strerror or error))
            if not told:
                logger.warning('the last transaction of %s can not be written to the disk: %s; '
                               'trying again', path, error.strerror or error)
                told = True
        time.sleep(PAUSE)


def write_again(path, end):
    """Write the last transaction of a file again, as it is, and synchronise the file.

    Args:
        end: offset behind it.

    Raises EnvironmentError.
    """
    with open(path, 'r+b', 0) as stream:
        position = beginning_of(stream, end) if end > BEGINNING else 0
        while position < end:
            stream.seek(position)
            piece = stream.read(min(PIECE, end - position))
            stream.seek(position)
            stream.write(piece)
            position += len(piece)
        os.fsync(stream.fileno())
