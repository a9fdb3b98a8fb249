"""What can be wrong with a data file, each with an exit code of its own."""


class DataFileError(Exception):
    """Something that the program says in one line before it ends with `exit_code`."""

    exit_code = 1


class Missing(DataFileError):
    """There is no such file, or it can not be read."""

    exit_code = 3


class Damaged(DataFileError):
    """This is no Data.fs, or a part of it is no transaction.

    Args:
        path: the file.
        position: where the part begins, in bytes.
        why: what is wrong with it.
    """

    exit_code = 4

    def __init__(self, path, position, why):
        super(Damaged, self).__init__('%s, offset %d: %s' % (path, position, why))
        self.position = position


class InUse(DataFileError):
    """A server has the file open."""

    exit_code = 5


class NoSuchTransaction(DataFileError):
    """The file does not hold the transaction that was asked for."""

    exit_code = 6


class Changed(DataFileError):
    """The file was replaced or cut while it was read."""

    exit_code = 7


class Occupied(DataFileError):
    """Something is where the result is to go."""

    exit_code = 8


class NoSpace(DataFileError):
    """The disk is too small for the result."""

    exit_code = 9
