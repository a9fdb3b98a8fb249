"""Events that Indico's model makes to be cut into stencils; nothing of them is kept."""
import contextlib
import datetime
import itertools

import transaction
from MaKaC.conference import CategoryManager, ConferenceHolder
from MaKaC.user import Avatar, AvatarHolder
from MaKaC.webinterface.internalPagesMgr import InternalPagesMgrRegistery
from ZODB.serialize import ObjectWriter

from bulkloader import model
from bulkloader.bulk import values
from bulkloader.bulk.cutting import Sample
from bulkloader.specification import Category, Person, rank

_FIRST_ID = 7310000    # of sample events: so long that it is part of no other value
_ZONES = (u'Asia/Tokyo', u'Europe/Lisbon', u'America/Bogota')
_FIRST_DAYS = (datetime.datetime(2005, 6, 6), datetime.datetime(2008, 1, 7),
               datetime.datetime(2011, 7, 4))
_FORM = u'{}\xe9{:06d}'
_FORMS = {'email': u'{}{:06d}@Conference.invalid', 'url': u'http://{}{:06d}.invalid/'}


@contextlib.contextmanager
def scratch(manager):
    """Let Indico work in a connection of its own, in which nothing is ever committed.

    Args:
        manager: Indico's `DBMgr`. It goes on with its own connection, if it has one, afterwards.

    What Indico remembers in a request is forgotten.
    """
    before = manager._getConnObject()
    own = transaction.TransactionManager()
    connection = manager._db.open(own)
    manager._setConnObject(connection)
    model.begin_batch()
    try:
        yield connection
    finally:
        model.begin_batch()
        manager._setConnObject(before)
        own.abort()
        connection.cacheMinimize()
        connection.close()


def made_up(conference, number):
    """Return an event of the same layout, all of whose values are different, also from those of
    another number.

    Args:
        conference: a `specification.Conference`.
        number: 0, 1 or 2.
    """
    people = sorted(conference.people, key=rank)
    later = _FIRST_DAYS[number] - datetime.datetime.combine(
        conference.start.date(), datetime.time())
    others = itertools.count(len(people) * len(Person._fields))

    def change(path, leaf):
        parts = path.split('.')
        if isinstance(leaf, datetime.datetime):
            return leaf + later
        if parts[-1] == 'timezone':
            return _ZONES[number]
        if parts[0] == 'people':
            # in the same order when sorted
            person = people.index(conference.people[int(parts[1])])
            place = person * len(Person._fields) + Person._fields.index(parts[2])
        elif leaf:
            place = next(others)
        else:
            return leaf
        return _FORMS.get(parts[-1], _FORM).format(u'NOP'[number], place)

    return values.mapped(conference, change)


def build(connection, conference, number):
    """Have Indico make an event in a category and by a user that were just made for it.

    Args:
        connection: of `scratch`.
        conference: a `specification.Conference`.
        number: another one for each event that is built.

    Returns a `Sample`.
    """
    ConferenceHolder()._newId()
    counter = connection.root()['counters'][ConferenceHolder.counterName]
    counter.sync(_FIRST_ID + 1000 * number)
    category, creator = _category(number), _creator(number)
    for outside in category, creator:
        connection.add(outside)
    begun = _now()
    made = model.make_conference(category, creator, conference)
    clock = values.moment(begun), values.moment(_now())
    placement = values.Placement(made.getId(), category._p_oid, creator._p_oid, begun)
    classes, records, oids, heads = _serialized(connection, made)
    return Sample(classes, records, oids, heads, dict(zip(
        values.names(conference), values.values(conference, placement))), clock)


def _now():
    return datetime.datetime.utcnow()


def _category(number):
    category_id, = model.make_categories(CategoryManager().getRoot(), (
        Category(u'Stand-in %d' % number, u'', ()),))
    return CategoryManager().getById(category_id)


def _creator(number):
    avatar = Avatar()
    avatar.setName('First %d' % number)
    avatar.setSurName('Last %d' % number)
    avatar.setEmail('stand-in-%d@conference.invalid' % number)
    AvatarHolder().add(avatar)
    return avatar


def heads(conference):
    """Return {name: object} of what Indico reaches by other ways than through the event."""
    return (('conference', conference), ('display', conference.getDisplayMgr()),
            ('pages', InternalPagesMgrRegistery().getInternalPagesMgr(conference)))


def _serialized(connection, conference):
    """Return classes, records, oids and heads of the objects of an event that is not saved."""
    found, numbers, places = [], {}, {}
    for name, head in heads(conference):
        if head._p_oid is None:
            connection.add(head)
        if head._p_oid not in numbers:
            writer = ObjectWriter(head)
            for each in writer:
                numbers[each._p_oid] = len(found)
                found.append((type(each).__name__, writer.serialize(each), each._p_oid))
        places[name] = numbers[head._p_oid]
    return zip(*found) + [places]
