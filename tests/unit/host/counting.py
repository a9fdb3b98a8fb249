"""A source of copies in which something can happen to a block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from indico_zodbrepl.host.node_files import DATA, NodeFile, Origin, Range
from indico_zodbrepl.host.receiving import Stream
from indico_zodbrepl.host.remote_copy import Source

PACK = """
import sys, time
from ZODB.FileStorage import FileStorage
from ZODB.serialize import referencesf
storage = FileStorage(sys.argv[1])
storage.pack(time.time(), referencesf)
storage.close()
"""


class Counted:
    """A source that counts the bytes it sends, and in which something can happen to a block.

    Args:
        happens: called with the number of a block, its content and its digest before it is taken;
            returns the digest.
        counted: how the names end of the files whose blocks are counted.
    """

    def __init__(
        self,
        source: Source,
        happens: Callable[[int, memoryview, bytes], bytes] | None = None,
        counted: str = DATA,
    ) -> None:
        self._source = source
        self._counted = counted
        self._happens = happens
        self.sent = self.blocks = 0

    def origin(self) -> Origin:
        return self._source.origin()

    def block_digests(self, identity: str, begin: int, end: int) -> Sequence[str]:
        return self._source.block_digests(identity, begin, end)

    def blobs(self) -> Sequence[NodeFile]:
        return self._source.blobs()

    @contextlib.contextmanager
    def stream(self, ranges: Sequence[Range]) -> Iterator[Stream]:
        with self._source.stream(ranges) as stream:
            is_counted = ranges[0].name.endswith(self._counted)
            yield _CountedStream(self, stream) if is_counted else stream

    def pass_on(self, content: memoryview, digest: bytes) -> bytes:
        self.sent += len(content)
        self.blocks += 1
        return self._happens(self.blocks, content, digest) if self._happens else digest


class _CountedStream:
    def __init__(self, counted: Counted, stream: Stream) -> None:
        self._counted, self._stream = counted, stream

    def length(self) -> int | None:
        return self._stream.length()

    def block(self, into: memoryview) -> bytes:
        return self._counted.pass_on(into, self._stream.block(into))
