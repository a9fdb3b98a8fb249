"""Files with the state of acknowledged commits, beside the data file."""
from __future__ import absolute_import

import errno
import json
import logging
import os
import time

from indico_zodbrepl.dataplane.datafs import disk

logger = logging.getLogger('zodbrepl.synchronous')

NAME = 'synchronous.json'
SHOWN = 'synchronous.shown'


class Record(object):
    """The state of one node's commits.

    Before a promotion it shows whether this node acknowledged commits that no other node has.

    Args:
        path: of the file.
        node: the node's name.
    """

    def __init__(self, path, node):
        self._path = path
        self._node = node
        self._missing = None

    def write(self, state, epoch, settings, acknowledged):
        """Write the state to disk; return False if that fails.

        Args:
            epoch: of the primary.
            settings: `acknowledgement_states.Settings`.
            acknowledged: id of the last acknowledged transaction, or None.
        """
        try:
            disk.write_file(self._path, [json.dumps({
                'state': state, 'node': self._node, 'epoch': epoch, 'at': time.time(),
                'count': settings.count, 'level': settings.level,
                'acknowledged': acknowledged and acknowledged.encode('hex')})])
        except EnvironmentError as error:
            if self._missing is None:
                logger.critical('cannot write %s: %s', self._path, error)
            self._missing = state, epoch, settings, acknowledged
            return False
        self._missing = None
        return True

    def replace(self, state, epoch, settings):
        """Write the state if there is a file of an earlier primary; it must not be taken for this one's."""
        if os.path.exists(self._path):
            self.write(state, epoch, settings, None)

    def retry(self):
        """Write what could not be written last time."""
        if self._missing is not None:
            self.write(*self._missing)

    def holds(self, state, epoch):
        """Return True if the file says that this node was in a state as primary of an epoch."""
        try:
            with open(self._path) as stream:
                found = json.load(stream)
        except (EnvironmentError, ValueError):
            return False
        return [found.get(name) for name in ('state', 'node', 'epoch')] == [state, self._node, epoch]


class Shown(object):
    """The last transaction that a primary has shown to clients.

    After a restart it shows no later one until followers have that.  The file is not forced to disk:
    after a kill it is exact, and after a power cut it may name an earlier transaction, which only hides
    more.

    Args:
        path: of the file.
    """

    def __init__(self, path):
        self._path = path
        self._file = None
        self._failed = False

    def read(self, epoch):
        """Return the id that was written in an epoch; None if there is none."""
        try:
            with open(self._path, 'rb') as stream:
                found, tid = stream.read().split()
                return tid.decode('hex') if int(found, 16) == epoch else None
        except (EnvironmentError, ValueError, TypeError):
            return None

    def write(self, epoch, tid):
        """Replace what the file says, before clients are shown the transaction."""
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o666)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, '%016x %s\n' % (epoch, tid.encode('hex')))
            self._failed = False
        except EnvironmentError as error:
            if not self._failed:
                self._failed = True
                logger.critical('cannot write %s: %s', self._path, error)

    def forget(self):
        """Remove the file: clients are shown everything."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        try:
            os.remove(self._path)
        except EnvironmentError as error:
            if error.errno != errno.ENOENT:
                logger.critical('cannot remove %s: %s', self._path, error)
