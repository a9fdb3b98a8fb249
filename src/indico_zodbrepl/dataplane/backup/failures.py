"""What can be wrong with a backup, beside what can be wrong with a data file."""
from ..datafs.failures import DataFileError


class NoBackup(DataFileError):
    """The folder has no backup, or none of that time."""

    exit_code = 10


class NotWhole(DataFileError):
    """A backup is damaged, or a part of it is missing."""

    exit_code = 11
