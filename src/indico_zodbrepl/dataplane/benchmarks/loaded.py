"""The events that the bulk loader made, as its record in the database tells.

The record is `root['bulkloader']`, see bulkloader/record.py; what it holds are
plain persistent types.
"""
from .errors import NothingLoaded

KEY = 'bulkloader'


def conferences(root):
    """Returns the ids of the events that the bulk loader made, the oldest first.

    Args:
        root: the database root.

    Raises NothingLoaded.
    """
    found = [conference_id for run in root.get(KEY, ())
             for conference_id in run['conferences'].values()]
    if not found:
        raise NothingLoaded(
            'the database holds nothing that the bulk loader made, and other data are not '
            'changed by a test: load some first, bin/bulkload --conferences 100')
    return found


def spread(found, count):
    """Returns at most `count` of a sequence, evenly spread over it."""
    if len(found) <= count:
        return list(found)
    return [found[len(found) * number // count] for number in range(count)]
