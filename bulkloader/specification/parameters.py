"""What a run is asked for (pure)."""
from __future__ import unicode_literals

import re
from collections import namedtuple

from bulkloader.specification.amounts import Amount
from bulkloader.specification.files import MAX_FILES, Sizes
from bulkloader.specification.shapes import CONFERENCE, KINDS, MATERIALS

EVENTS_PER_CATEGORY = 200
FAN_OUT = 12
MAX_CONTRIBUTIONS = 1000
MAX_SESSIONS = 100
MAX_SPEAKERS = 20
MAX_MATERIALS = len(MATERIALS)

# conferences: how many events. contributions, sessions, materials: of an event, speakers: of a
# contribution, files: of an event, each as `Amount` reads it. events: as `Mix` reads it. fan_out: the
# most categories in one. file_size: as `Sizes` reads it. Those with defaults came later: runs of
# generator 1 have no others, and files came last.
Parameters = namedtuple(
    'Parameters', 'conferences contributions categories rooms seed sessions speakers materials '
    'events fan_out files file_size')
Parameters.__new__.__defaults__ = (0, 1, 0, CONFERENCE, FAN_OUT, 0, '1MiB')


def amounts(parameters):
    """Return a dict of the `Amount`s of parameters; raise ValueError with words."""
    Sizes(parameters.file_size)
    limits = {'contributions': MAX_CONTRIBUTIONS, 'sessions': MAX_SESSIONS,
              'speakers': MAX_SPEAKERS, 'materials': MAX_MATERIALS, 'files': MAX_FILES}
    return dict((name, Amount(getattr(parameters, name), limit))
                for name, limit in limits.items())


class Mix(object):
    """How often each kind of event occurs.

    Args:
        text: kinds with weights, such as `conference:70,meeting:20,lecture:10`; a kind
            without a weight has 1.

    Attributes: `shares`, a list of (kind, share of 1), in the order of KINDS.
    Raises ValueError with words for operators.
    """

    def __init__(self, text):
        weights = {}
        for part in text.split(','):
            kind, colon, weight = part.strip().partition(':')
            if kind not in KINDS:
                raise ValueError("'%s' is none of %s" % (kind, ', '.join(KINDS)))
            if kind in weights:
                raise ValueError("'%s' is named twice" % kind)
            if colon and not re.match('[1-9][0-9]{0,5}$', weight):
                raise ValueError("the weight of %s is not a whole number from 1 to 999999" % kind)
            weights[kind] = int(weight) if colon else 1
        total = float(sum(weights.values()))
        self.shares = [(kind, weights[kind] / total) for kind in KINDS if kind in weights]


def default_categories(conferences, events_per_category=EVENTS_PER_CATEGORY):
    """Return how many categories keep each at so many events or fewer."""
    return -(-conferences // events_per_category)
