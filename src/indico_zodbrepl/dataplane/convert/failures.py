"""Reasons why a conversion stops, each with an exit code of its own."""


class ConversionError(Exception):
    """An error that the program reports in one line before it exits with `exit_code`."""

    exit_code = 1


class OtherData(ConversionError):
    """The target's content is not the beginning of the source."""

    exit_code = 8


class CanNotBeKept(ConversionError):
    """The source holds data that no copy can hold."""

    exit_code = 6


class CopyDiffers(ConversionError):
    """The copy, read back, differs from what was written."""

    exit_code = 7


class Unavailable(ConversionError):
    """A storage cannot be opened, or failed."""

    exit_code = 4


class InUse(ConversionError):
    """A server has the file open."""

    exit_code = 5
