"""Refuse files of a newer format than this release knows; `cluster/formats.py` is the other side."""

from indico_zodbrepl import __version__
from indico_zodbrepl.dataplane.datafs.failures import DataFileError


class NewerFormat(DataFileError):
    """A file of a newer format; the text is for the operator."""

    exit_code = 10


def refuse_newer(path, values, known=1):
    """Raise NewerFormat if the decoded content of a file has a higher format number.

    A file without a number is of format 1.
    """
    number = values.get('format', 1) if isinstance(values, dict) else 1
    if isinstance(number, (int, long)) and number > known:
        raise NewerFormat(
            'NOTICE: a file was written by a newer release of zodbrepl\n'
            'DETAIL: %s: format %d; release %s knows formats up to %d; nothing was changed\n'
            'HINT: use the newer release again: `zodbrepl upgrade --check` names it'
            % (path, number, __version__, known))
