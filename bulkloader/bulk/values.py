"""What the records of an event are filled with: its values, as pickles hold them (pure)."""
import datetime
from collections import namedtuple

from pytz import timezone

from bulkloader.bulk.holes import NOW

# Where and by whom an event is made.
# conference_id: of the event, such as '17'. category_oid, creator_oid: object ids of 8 bytes of its
# category and of its creator. now: datetime in UTC, its creation.
Placement = namedtuple('Placement', 'conference_id category_oid creator_oid now')

_PLACEMENT = ('conference_id', 'category_oid', 'creator_oid', NOW)


def names(conference):
    """Return the names of what `values` returns for any event of the layout of this one."""
    texts, moments = _leaves(mapped(conference, lambda path, leaf: path))
    return tuple(texts + moments) + _PLACEMENT


def values(conference, placement):
    """Return the values of a `specification.Conference` at a `Placement`, as a list of bytes."""
    texts, moments = _leaves(conference)
    offset = timezone(conference.timezone).utcoffset(conference.start)
    found = [text.encode('utf-8') for text in texts]
    found.extend([moment(each - offset) for each in moments])
    found.extend((placement.conference_id, placement.category_oid, placement.creator_oid,
                  moment(placement.now)))
    return found


def moment(date_time):
    """Return a datetime as pickles hold it: ten bytes, which sort like the times."""
    return date_time.__reduce__()[1][0]


def mapped(conference, change):
    """Return an event with `change(path, leaf)` for each of its texts and times.

    A path is such as `people.2.email`. A person stays the same in all parts.
    """
    people = {}

    def walk(value, path):
        if value in people:
            return people[value]
        if hasattr(value, '_fields'):
            return type(value)(*[
                part if name == 'kind' else walk(part, path + [name])
                for name, part in zip(value._fields, value)])
        if isinstance(value, tuple):
            return tuple(walk(part, path + [str(place)]) for place, part in enumerate(value))
        if isinstance(value, (unicode, datetime.datetime)):
            return change('.'.join(path), value)
        return value

    for slot, person in enumerate(conference.people):
        people[person] = walk(person, ['people', str(slot)])
    return walk(conference, [])


def _leaves(event):
    """Return the texts of an event that Indico keeps, and its times."""
    room = event.room
    texts = [event.title, event.description, event.keywords, event.timezone,
             room.name, room.location, room.address]
    moments = [event.start, event.end]
    for person in event.people:
        texts.extend(person)
    for material in event.materials:
        texts.extend(material[1:])
    for session in event.sessions:
        texts.extend((session.title, session.description))
        texts.extend(session.room[:3])
        moments.extend([slot.start for slot in session.slots])
    for contribution in event.contributions:
        texts.extend(contribution[:3])
        moments.append(contribution.start)
        for material in contribution.materials:
            texts.extend(material[1:])
    return texts, moments
