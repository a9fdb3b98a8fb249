"""Progress of the work on files, as JSON objects on standard error."""
from __future__ import absolute_import

import json
import sys

from indico_zodbrepl.dataplane.programs.clock import monotonic

EVERY = 0.5  # seconds


class Progress(object):
    """Says how many files and bytes of all are done, at most twice a second and at the end.

    Args:
        amount: {'files': ..., 'bytes': ...} of all.
        write: called with a line of text.
    """

    def __init__(self, amount, write=sys.stderr.write, clock=monotonic):
        self._amount = amount
        self._write = write
        self._clock = clock
        self._began = clock()
        self._next = self._began + EVERY
        self._files = self._bytes = 0

    def done(self, files, size):
        """Count files that are done."""
        self._files += files
        self._bytes += size
        self._say(0)

    def under_way(self, size):
        """Say how many bytes of the following files have been handled."""
        self._say(size)

    def finish(self):
        """Say the last numbers."""
        self._next = 0
        self._say(0)

    def _say(self, more):
        now = self._clock()
        if now < self._next:
            return
        self._next = now + EVERY
        self._write(json.dumps({
            'files': self._files, 'of_files': self._amount['files'],
            'bytes': self._bytes + more, 'of_bytes': self._amount['bytes'],
            'seconds': round(now - self._began, 3)}, sort_keys=True) + '\n')
        sys.stderr.flush()
