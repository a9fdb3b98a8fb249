"""The messages between a comparison and the program that serves the file of another host.

A message is two lengths, a JSON object and bytes.  The comparison asks, the other side answers in
order; several questions may be under way.  `serving` has the questions.
"""
from __future__ import absolute_import

import collections
import json
import socket
import struct

from indico_zodbrepl.dataplane.datafs import failures

FORMAT = 1  # of the questions and answers
LENGTHS = struct.Struct('>II')
LONGEST_JSON = 1 << 16
LONGEST = 256 << 20  # bytes that come with a message
ENTRY = struct.Struct('>8sQcB')  # of a list: tid, length, status, whether a digest follows
RECORDS = struct.Struct('>QQ16sI')  # position and end of a transaction, digest of texts, records
RECORD = struct.Struct('>8s16s')  # oid, digest
BLOB = struct.Struct('>8s8s')  # oid, tid
BLOB_SIZE = struct.Struct('>Q')  # bytes, or MISSING
BLOB_DIGEST = struct.Struct('>?32s')  # whether it is there, SHA-256
MISSING = (1 << 64) - 1
TID = 8


class Connection(object):
    """One end of a connection.

    Args:
        stream: a connected socket.
        peer: whom messages name when it is lost.
    """

    def __init__(self, stream, peer):
        self._stream = stream
        self._peer = peer

    @classmethod
    def of_descriptor(cls, number, peer):
        """Return the connection on an inherited socket."""
        return cls(socket.fromfd(number, socket.AF_UNIX, socket.SOCK_STREAM), peer)

    def close(self):
        self._stream.close()

    def ask(self, what, payload=b'', **values):
        """Send a question; return the values and the bytes of its answer.  Raises DataFileError."""
        self.post(what, payload, **values)
        return self.take()

    def post(self, what, payload=b'', **values):
        """Send a question whose answer is taken later."""
        self.send(dict(values, do=what), payload)

    def take(self):
        """Return the answer to the oldest question without one."""
        message = self.receive()
        if message is None:
            raise self._lost('it was closed')
        values, payload = message
        if 'error' in values:
            raise raised(values)
        return values, payload

    def send(self, values, payload=b''):
        text = json.dumps(values)
        try:
            self._stream.sendall(LENGTHS.pack(len(text), len(payload)) + text + payload)
        except socket.error as error:
            raise self._lost(error.strerror)

    def receive(self):
        """Return the values and bytes of the next message; None at the end of the connection."""
        head = self._exactly(LENGTHS.size)
        if head is None:
            return None
        text_length, length = LENGTHS.unpack(head)
        if text_length > LONGEST_JSON or length > LONGEST:
            raise self._lost('it sent something else than a message')
        text, payload = self._exactly(text_length), self._exactly(length)
        if text is None or payload is None:
            return None
        try:
            return json.loads(text), payload
        except ValueError as error:
            raise self._lost('it sent something else than a message: %s' % error)

    def _lost(self, why):
        return failures.Disconnected('%s: the connection to it was lost: %s' % (self._peer, why))

    def _exactly(self, length):
        parts = []
        while length > 0:
            try:
                part = self._stream.recv(min(length, 1 << 20))
            except socket.error as error:
                raise self._lost(error.strerror)
            if not part:
                return None
            parts.append(part)
            length -= len(part)
        return b''.join(parts)


KINDS = {kind.__name__: kind for kind in (
    failures.DataFileError, failures.Missing, failures.Damaged, failures.Changed)}


def error_of(error):
    """Return the values of an answer that tells an error."""
    name = type(error).__name__
    return {'error': name if name in KINDS else 'DataFileError', 'text': str(error),
            'position': getattr(error, 'position', None)}


def raised(values):
    """Return the error that an answer tells."""
    kind = KINDS.get(values['error'], failures.DataFileError)
    error = kind.__new__(kind)
    Exception.__init__(error, values['text'])
    if values['position'] is not None:
        error.position = values['position']
    return error


class Pipeline(object):
    """Questions of which a few are under way at a time, so that both hosts work.

    Args:
        connection: a Connection, on which nothing else is asked meanwhile.
        questions: an iterable of (value, what, values of the question).
        depth: how many are under way.
    """

    def __init__(self, connection, questions, depth=2):
        self._connection = connection
        self._questions = iter(questions)
        self._waiting = collections.deque()
        self._depth = depth

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None or not issubclass(kind, failures.Disconnected):
            for _ in self._waiting:
                self._connection.receive()

    def __iter__(self):
        """Yield each value with the bytes of its answer."""
        while True:
            for value, what, values in self._questions:
                self._connection.post(what, **values)
                self._waiting.append(value)
                if len(self._waiting) >= self._depth:
                    break
            if not self._waiting:
                return
            value = self._waiting.popleft()
            yield value, self._connection.take()[1]
