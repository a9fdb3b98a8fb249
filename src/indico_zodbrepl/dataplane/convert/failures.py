"""Why a conversion does not go on, each with an exit code of its own."""


class ConversionError(Exception):
    """Something that the program says in one line before it ends with `exit_code`."""

    exit_code = 1


class OtherData(ConversionError):
    """The target holds what is not the beginning of the source."""

    exit_code = 8


class CanNotBeKept(ConversionError):
    """The source holds what no copy would have."""

    exit_code = 6


class CopyDiffers(ConversionError):
    """What was written is not what is read back."""

    exit_code = 7


class Unavailable(ConversionError):
    """A storage can not be opened, or failed."""

    exit_code = 4


class InUse(ConversionError):
    """A server has the file open."""

    exit_code = 5
