"""A blob's file while its content arrives."""
from __future__ import absolute_import

import os
import tempfile
import threading
from hashlib import sha256

# Bytes that are written to disk at once: one large fsync would delay that of the data file.
STEP = 4 << 20

# Bytes between two calls of `grown`, and of a read.
PIECE = 1 << 18


class Incoming(object):
    """A temporary file whose content is hashed and written to disk by a thread, while it arrives.

    Args:
        folder: for temporary files, on the file system of the blobs.
        changed: called in any thread when more content can be read, when all is on disk, and when
            that has failed.

    Attributes:
        path: of the file.
        size: bytes that have arrived.
        is_complete: True if no more content will arrive.
        is_over: True if all content is on disk or that has failed.
        error: the EnvironmentError that made the file useless, or None.
        sha256: 32 bytes, once all content is on disk.

    Raises EnvironmentError.
    """

    size = 0
    is_complete = is_over = False
    error = sha256 = None

    def __init__(self, folder, changed=None):
        self._changed = changed or _nothing
        self._told = 0
        descriptor, self.path = tempfile.mkstemp(dir=folder, prefix='incoming-')
        self._writer = os.fdopen(descriptor, 'wb', 0)
        try:
            self._reader = open(self.path, 'rb', 0)
        except EnvironmentError:  # as many files are open as may be
            self._writer.close()
            os.remove(self.path)
            raise
        self._condition = threading.Condition()
        self._discarded = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name='Incoming')
        self._thread.daemon = True
        self._thread.start()

    def write(self, data):
        """Append content; raise EnvironmentError if the disk does not take all of it."""
        self._writer.write(data)
        self.size += len(data)
        if self.size - self._told >= PIECE:
            self._told = self.size
            self._changed()
        if self.size % STEP < len(data):
            with self._condition:
                self._condition.notify()

    def complete(self):
        """Take no more content; return before it is on disk."""
        self._writer.close()
        with self._condition:
            self.is_complete = True
            self._condition.notify()

    def wait(self):
        """Wait until the complete content is on disk; raise the EnvironmentError if it is not."""
        self._over.wait()
        if self.error is not None:
            raise self.error

    def discard(self):
        """Remove the file, unless it has been moved to another place."""
        self._writer.close()
        with self._condition:
            self._discarded = True
            self._condition.notify()
        if os.path.exists(self.path):
            os.remove(self.path)

    def _run(self):
        try:
            self._write_to_disk()
        except EnvironmentError as error:
            self.error = error
        finally:
            self._reader.close()
            self.is_over = True
            self._over.set()
        self._changed()

    def _write_to_disk(self):
        digest, done = sha256(), 0
        while True:
            with self._condition:
                while not (self._discarded or self.is_complete or self.size - done >= STEP):
                    self._condition.wait()
                if self._discarded:
                    return
                size, is_last = self.size, self.is_complete
            while done < size:
                block = self._reader.read(min(PIECE, size - done))
                if not block:
                    raise IOError('%s has become shorter' % self.path)
                digest.update(block)
                done += len(block)
            (os.fsync if is_last else os.fdatasync)(self._reader.fileno())
            if is_last:
                self.sha256 = digest.digest()
                return


def _nothing():
    pass
