"""Copy a data file, which a server may be writing, for another server."""
import os

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.blobs import Blobs, folder_of, tid_of
from indico_zodbrepl.dataplane.datafs.content import first_difference
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Changed, NoSpace, Occupied
from indico_zodbrepl.dataplane.datafs.truncate import locked
from indico_zodbrepl.dataplane.programs.clock import monotonic

SYNC_EACH = 64 << 20  # bytes; copied in pieces, so that the running server never waits long
CLOSE = 1 << 20  # bytes that are left to replication
ATTEMPTS = 5
PASSES = 20  # number of rounds; each copies what was written during the previous one
REPORT_EACH = 0.5  # seconds


class Progress(object):
    """A reporter of progress, called now and then.

    Args:
        say: called with a dict of stage ('data' or 'blobs'), done and total, in bytes; the
            total is None while it is not known.
    """

    def __init__(self, say):
        self._say = say
        self._next = 0

    def __call__(self, stage, done, total, now=False):
        if now or monotonic() >= self._next:
            self._next = monotonic() + REPORT_EACH
            self._say({'stage': stage, 'done': done, 'total': total})


def copy(source, target, say):
    """Copy a Data.fs up to a complete transaction, and its blobs.

    The target appears when it is complete and on disk; until then it is
    TARGET.part.  The matching part of what a previous run left is reused.

    Args:
        source: path of a Data.fs; a server may have it open, and may pack it.
        target: path; must not exist.
        say: as for Progress.

    Returns a dict for JSON: last tid, bytes, how many of them a previous run had left
    (`resumed`), blobs, blob_bytes, seconds.

    Raises DataFileError.
    """
    begin = monotonic()
    progress = Progress(say)
    DataFile(source).close()  # no file is left behind if the source cannot be read
    with locked(target):
        if os.path.lexists(target):
            raise Occupied('%s exists already' % target)
        for _ in range(ATTEMPTS):
            with _Part(target + '.part') as part:
                resumed, copied_file = _copy_data(source, part, progress)
            with DataFile(part.path) as copied:
                last, size = copied.last(), copied.size
            blobs = _copy_blobs(source, target, last and last.tid, progress)
            if blobs is not None and disk.identity(source) == copied_file:
                break
        else:
            raise Changed('%s is packed again and again' % source)
        os.rename(part.path, target)
        disk.sync_folder(disk.parent(target))
    return {'tid': last and last.tid.encode('hex'), 'bytes': size, 'resumed': resumed,
            'blobs': blobs[0], 'blob_bytes': blobs[1],
            'seconds': round(monotonic() - begin, 3)}


class _Part(object):
    """The growing copy of a data file."""

    def __init__(self, path):
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._unsynced = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._file)

    def size(self):
        return os.fstat(self._file).st_size

    def read(self, position, length):
        os.lseek(self._file, position, os.SEEK_SET)
        return os.read(self._file, length)

    def cut(self, position):
        """Truncate the part at a position, to continue from there."""
        os.ftruncate(self._file, position)
        os.lseek(self._file, position, os.SEEK_SET)

    def write(self, data):
        self._unsynced += len(data)
        while data:
            data = data[os.write(self._file, data):]
        if self._unsynced >= SYNC_EACH:
            self.sync()

    def sync(self):
        os.fdatasync(self._file)
        self._unsynced = 0


def _copy_data(source, part, progress):
    """Copy the complete transactions into the part.

    Returns how many bytes it had before, and the identity of the file that was copied.
    """
    present = DataFile(source)
    resumed = position = _take_over(present, part)
    try:
        for _ in range(PASSES):
            _check_space(part.path, present.end - position)
            behind = present.end - position
            for position in _append(present, part, position):
                progress('data', position, present.end)
            if behind <= CLOSE and not present.replaced():
                break
            newer = DataFile(source)
            replaced = present.replaced()
            present.close()
            present = newer
            if replaced:
                position = resumed = _take_over(present, part)
        part.sync()
        progress('data', position, present.end, now=True)
        return resumed, present.identity()
    finally:
        present.close()


def _take_over(present, part):
    """Truncate the part to what it has in common with the source; return its size."""
    end = min(present.end, part.size())
    same = first_difference(present.raw, part.read, 0, end)
    part.cut(same)
    return same


def _append(present, part, position):
    """Copy from a position to the end; yield the position now and then."""
    while position < present.end:
        data = present.raw(position, min(disk.BLOCK, present.end - position))
        if not data:
            raise Changed('%s was cut while it was copied' % present.path)
        part.write(data)
        position += len(data)
        yield position


def _check_space(path, needed):
    system = os.statvfs(path)
    free = system.f_bavail * system.f_frsize
    if free < needed:
        raise NoSpace('%d MB are needed for %s, %d MB are free' % (
            needed >> 20, path, free >> 20))


def _copy_blobs(source, target, last, progress):
    """Copy the blobs of the transactions up to a tid; remove others from the target's folder.

    Returns the number of blobs and of bytes copied; None if a pack removed some of them meanwhile.
    """
    blobs, folder = Blobs(folder_of(source)), folder_of(target)
    present = Blobs(folder)
    present.remove_others(blobs, last or b'')
    total = left = 0
    for name in _up_to(blobs, last):
        size = blobs.size(name) or 0
        total += size
        left += 0 if present.size(name) == size else size
    if left:
        _check_space(disk.parent(target), left)
    blobs.copy_marker(folder)
    count, done = 0, total - left
    for name in _up_to(blobs, last):
        size = blobs.copy(name, folder)
        if size is None:
            return None
        count += 1
        done += size
        progress('blobs', done, total)
    if total:
        progress('blobs', done, total, now=True)
    return count, done - (total - left)


def _up_to(blobs, last):
    return (name for name in blobs.names() if last is not None and tid_of(name) <= last)
