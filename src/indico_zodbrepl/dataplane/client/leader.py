"""The file in which the host's automation names the leader of the cluster.

Its format is in docs/architecture.md.  The file only speeds up the search for a server: every client
finds out itself which server accepts writes, so a missing, damaged or stale file prevents nothing.
"""
from __future__ import absolute_import

import collections
import errno
import json
import logging
import os

log = logging.getLogger(__name__)

VARIABLE = 'ZODBREPL_LEADER'  # the environment variable with the path of this host's file

# address: (host, port), as clients of this host have it in their configuration.
Leader = collections.namedtuple('Leader', 'epoch node address')


class LeaderFile(object):
    """The leader of the cluster, as this host knows it; for one thread.

    Args:
        path: of the file, or None.

    Attributes:
        current: the `Leader` of the highest epoch read so far, or None.
    """

    def __init__(self, path):
        self._path = path
        self._identity = None
        self._said = None
        self.current = None
        self.has_changed()

    def has_changed(self):
        """Return True if another leader has taken over since the last call; cheap if it has not."""
        if self._path is None:
            return False
        try:
            found = os.stat(self._path)
            identity = found.st_ino, found.st_mtime, found.st_size
            if identity == self._identity:
                return False
            self._identity = identity
            with open(self._path) as stream:
                leader = _parsed(stream.read())
        except EnvironmentError as error:
            if error.errno != errno.ENOENT:
                self._complain(error)
            return False
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._complain(error)
            return False
        if self.current is not None and leader.epoch <= self.current.epoch:
            return False
        self.current = leader
        return True

    def _complain(self, error):
        if str(error) != self._said:
            self._said = str(error)
            log.warning('%s is of no use: %s', self._path, error)


def _parsed(text):
    values = json.loads(text)
    host, port = values['address'].rsplit(':', 1)
    # ZConfig's addresses are byte strings.
    return Leader(int(values['epoch']), values['node'], (str(host.strip('[]')), int(port)))
