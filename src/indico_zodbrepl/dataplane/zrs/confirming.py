"""The follower's side of confirmations; see `confirmations`.

Everything here runs in the reactor's thread.
"""
from __future__ import absolute_import

import logging
import os
import socket
import struct
import sys

import ZODB.FileStorage

from indico_zodbrepl.dataplane.server.status import inside
from indico_zodbrepl.dataplane.zrs.confirmations import (
    FSYNC,
    LEVELS,
    NONE,
    RECEIVE,
    WRITE,
    answer,
)

logger = logging.getLogger('zodbrepl.replication')

_LENGTH = struct.Struct('>I')

# The package has a class of the same name.
_module = sys.modules[ZODB.FileStorage.FileStorage.__module__]

# What to call before a file is written to disk, by its descriptor.
_before_fsync = {}


def install():
    """Make FileStorage report that it has written a transaction; may be called repeatedly."""
    _module.fsync = _fsync


def _fsync(descriptor):
    report = _before_fsync.pop(descriptor, None)
    if report is not None:
        report()
    os.fsync(descriptor)


class Identity(object):
    """What a node says of itself in its answers.

    Args:
        node: its name.
        epoch: called for the highest epoch of the cluster that it knows.
        forwards: True if it forwards what its own followers confirm.
    """

    def __init__(self, node, epoch, forwards=False):
        self.node = node
        self.epoch = epoch
        self.forwards = forwards


class Confirming(object):
    """The confirmations that a follower sends on one connection to its upstream.

    Args:
        transport: the connection.
        storage: the one that receives the transactions.
        identity: an `Identity`.
    """

    def __init__(self, transport, storage, identity):
        self._transport = transport
        self._storage = storage
        self._identity = identity
        self._question = NONE
        self._descriptor = None

    def asked(self, question):
        """Answer from now on, if the question is of the epoch that this node knows."""
        self._question = NONE
        if question.level not in LEVELS:
            self._forward(NONE)
            return
        if not self._is_current(question):
            logger.warning('its upstream is of epoch %s and gets no confirmations: the cluster is in '
                           'epoch %d', question.epoch, self._identity.epoch())
            return
        self._question = question
        self._send(answer(self._identity.node, question, self._storage.lastTransaction()))
        self._forward(question)

    def received(self, tid):
        """Note that a transaction is in memory, and complete."""
        level = self._question.level
        if level == RECEIVE:
            self._confirm(tid)
        elif level == WRITE:
            self._descriptor = inside(self._storage)._file.fileno()
            _before_fsync[self._descriptor] = lambda: self._confirm(tid)

    def finished(self, tid):
        """Note that a transaction is finished."""
        if self._question.level == FSYNC:
            self._confirm(tid)

    def close(self):
        """Note that the connection has ended."""
        self._question = NONE
        _before_fsync.pop(self._descriptor, None)
        self._forward(NONE)

    def _confirm(self, tid):
        if self._is_current(self._question):
            self._send(tid)

    def _is_current(self, question):
        return question.level is not None and self._identity.epoch() <= question.epoch

    def _forward(self, question):
        """Ask this relay's own followers, and forward what they answer."""
        if not self._identity.forwards or not hasattr(self._storage, 'confirmations'):
            return
        confirmations = self._storage.confirmations
        confirmations.changed = self._forward_one if question is not NONE else _nothing
        self._storage.ask(question)
        if question is not NONE:
            for name, tid in confirmations.confirmed().items():
                self._forward_one(name, tid)

    def _forward_one(self, name, tid):
        if name != self._identity.node and self._is_current(self._question):
            self._send(answer(name, self._question, tid))

    def _send(self, message):
        """Send a message at once: this thread may be about to wait for the disk."""
        data = _LENGTH.pack(len(message)) + message
        sent = 0
        if not self._transport.dataBuffer and not self._transport._tempDataBuffer:
            try:
                sent = self._transport.getHandle().send(data)
            except socket.error:
                pass  # it would block, or is broken: the reactor finds out
        if sent < len(data):
            self._transport.write(data[sent:])


def _nothing(name, tid):
    pass
