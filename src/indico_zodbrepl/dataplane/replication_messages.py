"""Takes messages out of what a connection delivers."""
import struct

from zc.zrs.sizedmessage import LimitExceeded

_LENGTH = struct.Struct('>I')


class Stream(object):
    """Stands in for `zc.zrs.sizedmessage.Stream`, which copies what it has with each message.

    Args:
        callback: called with each message, bytes.
        limit: of a message, in bytes; LimitExceeded is raised for more.
    """

    def __init__(self, callback, limit=1 << 32):
        self._callback = callback
        self._limit = limit
        self._received = []
        self._size = 0
        self._wanted = _LENGTH.size

    def __call__(self, data):
        """Takes what has arrived, in pieces of any size."""
        self._received.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return
        data = b''.join(self._received)
        position, size = 0, len(data)
        try:
            while True:
                self._wanted = _LENGTH.size
                begin = position + _LENGTH.size
                if begin > size:
                    break
                length, = _LENGTH.unpack_from(data, position)
                if length > self._limit:
                    raise LimitExceeded(self._limit, length)
                if begin + length > size:
                    self._wanted += length
                    break
                position = begin + length
                self._callback(data[begin:position])
        finally:
            self._received = [data[position:]]
            self._size = size - position
