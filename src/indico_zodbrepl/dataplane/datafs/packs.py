"""The time up to which a Data.fs was packed; a server notes it in DATAFILE.packed.

A data file marks only the transactions that a pack has kept.  A pack may also have removed
transactions that follow the last marked one, but none that is newer than the pack's time.
"""
from __future__ import absolute_import

import json
import time

from ZODB.TimeStamp import TimeStamp

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Damaged
from indico_zodbrepl.dataplane.datafs.records import START
from indico_zodbrepl.dataplane.formats import refuse_newer

FORMAT = 1
SUFFIX = '.packed'


def note_pack(path, seconds):
    """Record that a file has been packed; read the headers of the transactions not marked.

    Args:
        path: of the Data.fs.
        seconds: the pack's time, since 1970.

    Raises DataFileError, EnvironmentError.
    """
    with DataFile(path) as data_file:
        earlier = packed_until(data_file)
        last = next((each for each in data_file.backward() if each.packed), None)
    disk.write_file(path + SUFFIX, [json.dumps({
        'format': FORMAT,
        'until': max(earlier or b'', _tid_at(seconds)).encode('hex'),
        'end': START if last is None else last.end,
        'last': last and last.tid.encode('hex'),
    }, sort_keys=True) + '\n'])


def packed_until(data_file):
    """Return the tid after which no pack has removed anything from a DataFile.

    None if it is unknown: there is no note, or it is about another file.  Raises NewerFormat.
    """
    try:
        with open(data_file.path + SUFFIX, 'rb') as source:
            note = json.load(source)
        refuse_newer(source.name, note, FORMAT)
        if note['format'] != FORMAT:
            return None
        until, end, last = note['until'].decode('hex'), int(note['end']), note['last']
    except (EnvironmentError, ValueError, KeyError, TypeError, AttributeError):
        return None  # without a note nothing is known
    return until if len(until) == 8 and _ends_there(data_file, end, last) else None


def _ends_there(data_file, end, last):
    """Return True if the packed part of a DataFile ends at a position, with the tid `last`."""
    if not START <= end <= data_file.end:
        return False
    try:
        before = data_file.before(end)
        after = None if end == data_file.end else data_file.at(end)
    except Damaged:
        return False  # no transaction ends there
    if after is not None and after.packed:
        return False
    if before is None:
        return last is None
    return before.packed and before.tid.encode('hex') == last


def _tid_at(seconds):
    """Return the tid that FileStorage compares with those of the transactions."""
    return TimeStamp(*time.gmtime(seconds)[:5] + (seconds % 60,)).raw()
