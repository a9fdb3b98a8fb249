"""The follower's side of the blob channel: blobs that arrive before their transaction."""
from __future__ import absolute_import

import logging
import os
import socket
import struct
import tempfile
import threading
from hashlib import sha256

from indico_zodbrepl.dataplane.server.incoming import STEP
from indico_zodbrepl.dataplane.zrs.channel import (
    ABANDON,
    BEGIN,
    CHANNEL,
    CONTENT,
    END,
    HEAD,
    HELD,
    KEEP,
    REFUSED,
    TOTAL,
    frame,
)

logger = logging.getLogger('zodbrepl.replication')

_LENGTH = struct.Struct('>I')
_CONNECT_LIMIT = 10.0  # seconds
_PAUSE = 1.0  # seconds between two connections


class NotStaged(IOError):
    """A transaction refers to a blob that is not there, or is another one."""


class Staged(object):
    """A blob that arrives; `is_complete` once it is on disk.

    The primary may name it in the stream once `is_kept`.

    A relay passes it on to its own followers meanwhile; see `sharing.Sharing`.
    """

    is_complete = is_over = is_kept = False
    size = 0
    sha256 = shared = error = None

    def __init__(self, folder):
        descriptor, self.path = tempfile.mkstemp(dir=folder, prefix='staged-')
        self._file = os.fdopen(descriptor, 'wb', 0)
        self._digest = sha256()
        self._written = 0

    def write(self, data):
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)
        if self.size - self._written >= STEP:
            self._written = self.size
            os.fdatasync(self._file.fileno())

    def complete(self):
        os.fsync(self._file.fileno())
        self._file.close()
        self.sha256 = self._digest.digest()
        self.is_complete = self.is_over = True

    def discard(self):
        """Remove the file, unless it has been moved to another place; any thread may call it."""
        if os.path.exists(self.path):
            os.remove(self.path)


class Staging(object):
    """Receives blobs on a connection of their own, in a thread of its own.

    Args:
        address: of the primary, as that of the replication link.
        token: 8 bytes by which the primary knows which link this belongs to.
        storage: the follower's; a zc.zrs Primary if the follower is a relay.
    """

    def __init__(self, address, token, storage):
        self._address, self._token = address, token
        self._folder = storage.temporaryDirectory()
        self._sharing = getattr(storage, 'sharing', None)
        self._lock = threading.Lock()
        self._staged = {}
        self._unanswered = set()
        self._socket = None
        self._closed = threading.Event()
        thread = threading.Thread(target=self._run, name='Staging')
        thread.daemon = True
        thread.start()

    def take(self, oid, tid, number, size, digest):
        """Return the path of the file with a transaction's blob; it belongs to the caller then.

        Args:
            oid, tid: of the blob.
            number: of the upload, as the primary counts them.
            size: in bytes.
            digest: SHA-256 of the content, 32 bytes.

        Raises NotStaged.
        """
        with self._lock:
            staged = self._staged.pop(number, None)
        if staged is None or not staged.is_complete:
            raise NotStaged('blob %s of transaction %s has not arrived' % (
                oid.encode('hex'), tid.encode('hex')))
        if (staged.size, staged.sha256) != (size, digest):
            staged.discard()
            raise NotStaged('blob %s of transaction %s is not the one that arrived' % (
                oid.encode('hex'), tid.encode('hex')))
        if staged.shared is not None:
            self._sharing.place(staged.shared, oid, tid)
            self._sharing.settle(staged.shared, True)
        return staged.path

    def close(self):
        """End the connection, and remove the blob files that no transaction took."""
        with self._lock:
            self._closed.set()
            staged, self._staged = self._staged, {}
            if self._socket is not None:
                _shut(self._socket)
        for each in staged.values():
            self._discard(each)

    def _run(self):
        while not self._closed.is_set():
            try:
                self._receive()
            except (EnvironmentError, struct.error) as error:
                if not self._closed.is_set():
                    logger.info('the blob channel to the upstream ended: %s', error)
            self._drop_unknown()
            self._closed.wait(_PAUSE)

    def _receive(self):
        connection = socket.create_connection(self._address, _CONNECT_LIMIT)
        try:
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            with self._lock:
                if self._closed.is_set():
                    return
                self._socket = connection
            connection.sendall(frame(CHANNEL) + frame(self._token))
            stream = connection.makefile('rb', 1 << 18)
            while True:
                length = stream.read(_LENGTH.size)
                if not length:
                    raise IOError('the upstream closed it')
                self._take(stream.read(_LENGTH.unpack(length)[0]))
        finally:
            with self._lock:
                self._socket = None
            connection.close()

    def _take(self, message):
        kind, number = HEAD.unpack_from(message)
        with self._lock:
            staged = self._staged.get(number)
        try:
            if kind == BEGIN:
                self._begin(number)
            elif staged is None:
                return
            elif kind == CONTENT:
                staged.write(buffer(message, HEAD.size))
                if self._sharing is not None:
                    self._sharing.grown()
            elif kind == END:
                self._end(number, staged, *TOTAL.unpack_from(message, HEAD.size))
            elif kind == KEEP:
                staged.is_kept = True
            elif kind == ABANDON:
                self._remove(number)
        except EnvironmentError as error:
            logger.error('cannot take a blob ahead of its transaction: %s', error)
            self._remove(number)
            self._answer(REFUSED, number)

    def _begin(self, number):
        self._remove(number)
        staged = Staged(self._folder)
        with self._lock:
            is_closed = self._closed.is_set()
            if not is_closed:
                self._staged[number] = staged
        if is_closed:
            staged.discard()
        elif self._sharing is not None:
            staged.shared = self._sharing.begin(staged, lambda: self._shared(number))

    def _end(self, number, staged, size, digest):
        staged.complete()
        if (staged.size, staged.sha256) != (size, digest):
            raise NotStaged('it has %d bytes and SHA-256 %s instead of %d and %s' % (
                staged.size, staged.sha256.encode('hex'), size, digest.encode('hex')))
        with self._lock:
            self._unanswered.add(number)
        if self._sharing is not None:
            self._sharing.grown()
        self._shared(number)

    def _shared(self, number):
        """Answer that a blob is here, once a relay's own followers have it as well."""
        with self._lock:
            staged = self._staged.get(number)
            if (number not in self._unanswered
                    or staged is not None and staged.shared is not None
                    and not staged.shared.is_shared()):
                return
            self._unanswered.remove(number)
        if staged is not None:
            self._answer(HELD, number)

    def _answer(self, kind, number):
        with self._lock:
            if self._socket is not None:
                self._socket.sendall(frame(HEAD.pack(kind, number)))

    def _remove(self, number):
        with self._lock:
            staged = self._staged.pop(number, None)
        if staged is not None:
            self._discard(staged)

    def _drop_unknown(self):
        with self._lock:
            self._unanswered.clear()
            unknown = [(number, staged) for number, staged in self._staged.items()
                       if not staged.is_kept]
            for number, _ in unknown:
                del self._staged[number]
        for _, staged in unknown:
            self._discard(staged)

    def _discard(self, staged):
        staged.discard()
        if staged.shared is not None:
            self._sharing.settle(staged.shared, False)


def _shut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except socket.error:
        pass
