"""JSON as typed values; safe in any number of threads.

msgspec 0.22 describes a class when it first meets it, and puts the description on the class before
it is complete. A second thread that decodes the same class then reads what is not there yet, and
the interpreter crashes. So classes are described under a lock here, and nothing else calls
msgspec's ``decode`` or ``convert``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Hook = Callable[[type, Any], Any]

_lock = threading.Lock()
_decoders: dict[tuple[object, Hook | None], msgspec.json.Decoder[Any]] = {}


def _decoder(kind: object, hook: Hook | None) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type, which describes it and its nested types."""
    with _lock:
        if (kind, hook) not in _decoders:
            _decoders[kind, hook] = msgspec.json.Decoder(kind, dec_hook=hook)
        return _decoders[kind, hook]


def decode(content: bytes | str, kind: type[T], hook: Hook | None = None) -> T:
    """Decode JSON.

    Args:
        kind: the type of the value; with its nested types it is described once a process.
        hook: converts a decoded value to a type that JSON lacks, given the type and the value.

    Raises:
        msgspec.MsgspecError: it is not JSON, or not of this type.
    """
    value: T = _decoder(kind, hook).decode(content)
    return value


def convert(value: object, kind: type[T]) -> T:
    """Convert what ``json.loads`` returns.  Raises msgspec.MsgspecError: not of this type."""
    _decoder(kind, None)
    return msgspec.convert(value, kind)
