"""How many bytes a run will take, before it is made, without the contents of files (pure)."""
from __future__ import unicode_literals

from bulkloader.specification.layouts import layouts
from bulkloader.specification.parameters import amounts
from bulkloader.specification.shapes import CONFERENCE, LECTURE, MEETING

# Bytes of each in a packed FileStorage, with the share of Indico's indexes: fitted to runs of 60
# to 200 events that the model way made, of which each fits to 1 percent.
_EVENTS = {CONFERENCE: 40400, MEETING: 40700, LECTURE: 41900}
_CHAIR = 3560
_SESSION, _SLOT = 1950, 3130
_CONTRIBUTION, _AUTHOR, _SPEAKER = 5280, 300, 180
_MATERIAL = 1680
_FILE, _FILES = 1130, 1020      # a file without its content; the material that holds some

_MANY = 1 << 30     # events: a run with all its layouts


def estimated_bytes(parameters):
    """Return about how many bytes a run adds to a packed FileStorage, as a whole number."""
    return int(parameters.conferences * _mean(parameters))


def events_of_size(parameters, size):
    """Return how many events add about `size` bytes, at least 1; for ever the same number.

    What `parameters` say of the number of events and of categories does not matter.
    """
    many = parameters._replace(conferences=_MANY)
    events = max(1, int(size / _mean(many)))
    # a small run has fewer layouts, with another mean
    return max(1, int(size / _mean(parameters._replace(conferences=events))))


def _mean(parameters):
    """Return the bytes of an event of these parameters, on average."""
    wanted = amounts(parameters)
    files = wanted['files'].mean
    total = _FILE * files + _FILES * min(files, max(1, wanted['contributions'].mean))
    for share, of_kind in layouts(parameters):
        total += share * sum(_bytes(layout) for layout in of_kind) / len(of_kind)
    return total


def _bytes(layout):
    count = _EVENTS[layout.kind] + _CHAIR * len(layout.chairs) + _MATERIAL * len(layout.materials)
    for session in layout.sessions:
        count += _SESSION + _SLOT * len(session.slots)
    for each in layout.contributions:
        count += (_CONTRIBUTION + _AUTHOR * len(each.authors + each.co_authors)
                  + _SPEAKER * len(each.speakers) + _MATERIAL * len(each.materials))
    return count
