"""What the records of a stencil are made of, besides constant bytes (pure)."""
from collections import namedtuple

from bulkloader.bulk.opcodes import text

NOW = 'now'    # the value that is the moment of an event's making

# A value of an event, and what is done to it: a function or None.
Part = namedtuple('Part', 'name change')


class Hole(namedtuple('Hole', 'encode parts')):
    """A place in a record that is another one in each event.

    Args:
        encode: a function of `opcodes`.
        parts: what its argument is put together from, each either bytes or a `Part`.
    """

    __slots__ = ()

    @property
    def is_plain(self):
        """Return True if it is a string of bytes that is a value as it is."""
        return self.encode is text and len(self.parts) == 1 and (
            not isinstance(self.parts[0], str) and self.parts[0].change is None)
