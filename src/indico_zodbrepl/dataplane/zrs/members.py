"""The nodes whose confirmations count, by a file that the control plane writes.

Its JSON is {"nodes": {NAME: {"from": [HOST, ...] or null, "forwards": true or false}}}: the addresses
from which the node of that name connects, null for any, and if it forwards what others confirm.  The
file is read again when it has changed.
"""
from __future__ import absolute_import

import collections
import json
import logging
import os

from indico_zodbrepl.dataplane.programs.clock import monotonic

logger = logging.getLogger('zodbrepl.synchronous')

# Seconds between two looks at the file.
INTERVAL = 0.5

Member = collections.namedtuple('Member', 'hosts forwards')


class BadMembers(ValueError):
    """The file can't be used."""


class Members(object):
    """The nodes of a cluster.

    Args:
        path: of the file.

    Attributes:
        version: changes with the list.

    Raises BadMembers.
    """

    def __init__(self, path):
        self._path = path
        self._identity = _identity(path)
        self._next = monotonic() + INTERVAL
        self._members = _read(path)
        self.version = 1

    def read_again(self):
        """Read the file if it has changed; one that can't be used changes nothing."""
        if monotonic() < self._next:
            return
        self._next = monotonic() + INTERVAL
        identity = _identity(self._path)
        if identity == self._identity:
            return
        self._identity = identity
        try:
            self._members = _read(self._path)
        except BadMembers as error:
            logger.error('the nodes whose confirmations count stay the same: %s', error)
            return
        self.version += 1

    def objection(self, name, speaker, host):
        """Return why a node's confirmations do not count; None if they do.

        Args:
            speaker: the node at the other end of the connection.
            host: the address of that end.
        """
        if name not in self._members:
            return 'the cluster file has no such node'
        member = self._members.get(speaker)
        if member is None:
            return 'node %s forwards them, and the cluster file has no such node' % speaker
        if name != speaker and not member.forwards:
            return 'node %s forwards them, and is not to' % speaker
        if member.hosts is not None and host not in member.hosts:
            return 'they come from %s, and node %s is elsewhere' % (host, speaker)
        return None


def _identity(path):
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime, found.st_size


def _read(path):
    try:
        with open(path) as opened:
            nodes = json.load(opened)['nodes']
        return {str(name): Member(_hosts(values['from']), bool(values['forwards']))
                for name, values in nodes.items()}
    except EnvironmentError as error:
        raise BadMembers('cannot read %s: %s' % (path, error.strerror))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadMembers('%s is damaged: %s' % (path, error))


def _hosts(values):
    return None if values is None else frozenset(str(each) for each in values)
