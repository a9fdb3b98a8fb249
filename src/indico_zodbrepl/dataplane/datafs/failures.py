"""Errors about a data file, each with an exit code of its own."""


class DataFileError(Exception):
    """An error that the program reports in one line before it exits with `exit_code`."""

    exit_code = 1


class Missing(DataFileError):
    """The file does not exist or cannot be read."""

    exit_code = 3


class Damaged(DataFileError):
    """The file is no Data.fs, or has an invalid transaction.

    Args:
        path: the file.
        position: where the damage begins, in bytes.
        why: the problem.
    """

    exit_code = 4

    def __init__(self, path, position, why):
        super(Damaged, self).__init__('%s, offset %d: %s' % (path, position, why))
        self.position = position


class InUse(DataFileError):
    """A server has the file open."""

    exit_code = 5


class NoSuchTransaction(DataFileError):
    """The file does not hold the requested transaction."""

    exit_code = 6


class Changed(DataFileError):
    """The file was replaced or truncated while it was read."""

    exit_code = 7


class Occupied(DataFileError):
    """The target path already exists."""

    exit_code = 8


class NoSpace(DataFileError):
    """The disk is too small for the result."""

    exit_code = 9


class Disconnected(DataFileError):
    """The host of the file does not answer any more."""

    exit_code = 11
