"""The opcodes of Indico's records, read and written (pure)."""
import struct
from collections import namedtuple

from zodbpickle import pickletools_2 as pickletools

BYTES = frozenset(['SHORT_BINSTRING', 'BINSTRING'])
UNICODE = 'BINUNICODE'
OID = 'SHORT_BINBYTES'    # nothing but object ids is pickled in this form
_PUTS = frozenset(['BINPUT', 'LONG_BINPUT'])
_GETS = frozenset(['BINGET', 'LONG_BINGET'])

_SIZES = dict((opcode.code, (opcode.name, opcode.arg.n if opcode.arg else 0))
              for opcode in pickletools.opcodes
              if opcode.arg is None or opcode.arg.n != pickletools.UP_TO_NEWLINE
              or opcode.name == 'GLOBAL')
_SIZE_OF_FOUR = struct.Struct('<i')
_SHORT = ['U' + chr(length) for length in range(256)]

# attribute: the text that came before, which in most places is an attribute's name
Operation = namedtuple('Operation', 'name argument raw attribute')


def parse(record):
    """Return a list of the `Operation`s of a record, which is two pickles.

    It is `pickletools.genops` without what is of no use here, as making a stencil is mostly this.
    Opcodes of protocol 0, which ends them with newlines, are none of ZODB's but that of classes.
    """
    operations, attribute, begin = [], None, 0
    while begin < len(record):
        name, size = _SIZES[record[begin]]
        first = begin + 1
        if size == pickletools.TAKEN_FROM_ARGUMENT1:
            first, size = first + 1, ord(record[first])
        elif size == pickletools.TAKEN_FROM_ARGUMENT4:
            first, (size,) = first + 4, _SIZE_OF_FOUR.unpack_from(record, first)
        elif size == pickletools.UP_TO_NEWLINE:
            size = record.index('\n', record.index('\n', first) + 1) + 1 - first
        end = first + size
        argument = record[first:end]
        operations.append(Operation(name, argument, record[begin:end], attribute))
        if name in BYTES:
            attribute = argument
        begin = end
    return operations


def oid(argument):
    """Return the opcode of an object id."""
    return 'C\x08' + argument


def text(argument):
    """Return the opcode of a string of bytes."""
    if len(argument) < 256:
        return _SHORT[len(argument)] + argument
    return 'T' + _SIZE_OF_FOUR.pack(len(argument)) + argument


def unicode_text(argument):
    """Return the opcode of a text, given in UTF-8."""
    return 'X' + _SIZE_OF_FOUR.pack(len(argument)) + argument


def without_memo(operations):
    """Return what is the same for records that differ only in what their pickler remembered.

    It remembers no string shorter than two bytes, so the numbers after such a value shift.
    """
    plain, remembered = [], {}
    for operation in operations:
        if operation.name in _PUTS:
            remembered[operation.argument] = len(plain)
        elif operation.name in _GETS:
            plain.append(remembered[operation.argument])
        else:
            plain.append(operation.raw)
    return plain
