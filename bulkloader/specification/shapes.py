"""The tuples that a specification is made of (pure, Python 2.7 and 3).

An event of a run is its *layout*, shared with many other events, and its *values*. A layout has
all that decides which objects Indico makes and how they hang together; the values are words,
dates and people. The members of an event stand at the same positions as those of its layout.

Times of a layout are minutes after the midnight at which the event's first day begins. Its time
zone never changes its offset from UTC between the first and the last of an event's days.
"""
from collections import namedtuple

CONFERENCE, MEETING, LECTURE = KINDS = ('conference', 'meeting', 'lecture')

Category = namedtuple('Category', 'name description children')
Room = namedtuple('Room', 'name location address timezone')
Person = namedtuple('Person', 'title first_name family_name affiliation email')

# kind: one of KINDS. days: how many the event takes. start, end: minutes. people: for each person
# who takes part the place among all of them, sorted by `rank`; positions in `people` are called
# slots. chairs: slots. has_description, has_keywords: whether that text is there. materials: kinds.
Layout = namedtuple(
    'Layout', 'kind days start end people chairs has_description has_keywords materials '
    'sessions contributions')
# conveners: slots of people
SessionLayout = namedtuple('SessionLayout', 'has_description conveners slots')
SlotLayout = namedtuple('SlotLayout', 'start duration')
# session, slot: positions in Layout.sessions and in its slots, None outside of sessions.
# authors, co_authors, speakers: slots of people. At a conference each speaker is one of the
# authors or co-authors; at a meeting there are speakers only.
ContributionLayout = namedtuple(
    'ContributionLayout', 'start duration session slot authors co_authors speakers '
    'has_description has_keywords materials')

# kind: of the event. start, end: naive, in the time zone of the event. people: of each slot.
# A text that the layout does not have is ''.
Conference = namedtuple(
    'Conference', 'title description keywords timezone start end room chairs contributions '
    'kind people materials sessions')
Session = namedtuple('Session', 'title description room conveners slots')
Slot = namedtuple('Slot', 'start duration')
Contribution = namedtuple(
    'Contribution', 'title description keywords start duration authors co_authors speakers '
    'session slot materials')
# kind: one of MATERIALS; a link with this name and address
Material = namedtuple('Material', 'kind name url')

# Indico's names for kinds of material
MATERIALS = ('slides', 'paper', 'poster', 'video', 'notes', 'summary', 'pictures', 'document',
             'drawings', 'proceedings')


def rank(person):
    """Return what people are sorted by before they are given to slots.

    It is the order of Indico's index of authors, which so has the same form in all events of a
    layout.
    """
    return person.family_name, person.first_name, person.email
