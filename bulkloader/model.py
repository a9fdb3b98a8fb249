"""Make categories and events by Indico's own calls, as its web forms do.

All functions need an open connection (`DBMgr.startRequest()`) and never commit.
"""
from datetime import timedelta

from MaKaC.common.contextManager import ContextManager
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.conference import (
    ConferenceChair, Contribution, ContributionParticipation, CustomLocation, CustomRoom, Link,
    Session, SessionSlot, SlotChair)
from MaKaC.webinterface.rh.categoryDisplay import UtilsConference
from indico_zodbrepl.dataplane.indico import prewarm
from pytz import timezone, utc

from bulkloader.specification import CONFERENCE, LECTURE, MEETING
from bulkloader.vocabulary import SESSION_COLOURS

# What Indico calls an event of each kind, and the style that its form proposes.
TYPES = {CONFERENCE: ('conference', 'static'), MEETING: ('meeting', 'standard'),
          LECTURE: ('simple_event', 'lecture')}


def begin_batch():
    """Forget what Indico remembers between the objects of one request."""
    ContextManager.destroy()
    ContextManager.set('autoOps', [])


def _bytes(text):
    return text.encode('utf-8')


def make_categories(parent, tree):
    """Make the categories of `Specification.category_tree` below `parent`.

    Returns the ids of those without children, in the specification's order.
    """
    leaves = []
    for wanted in tree:
        category = parent.newSubCategory(0)
        category.setName(_bytes(wanted.name))
        category.setDescription(_bytes(wanted.description))
        prewarm.prewarm_category(category)
        leaves.extend(make_categories(category, wanted.children)
                      if wanted.children else [category.getId()])
    return leaves


def make_conference(category, creator, wanted):
    """Make a `specification.Conference` of any kind in a category; return Indico's object."""
    zone = timezone(wanted.timezone)
    conference = category.newConference(creator)
    UtilsConference.setValues(conference, _form_of(wanted))
    for person in wanted.chairs:
        conference.addChair(_participation(ConferenceChair(), person))
    _add_materials(conference, wanted.materials)
    sessions = [_make_session(conference, number, session, zone)
                for number, session in enumerate(wanted.sessions)]
    for contribution in wanted.contributions:
        session, slot = None, None
        if contribution.session is not None:
            session, slots = sessions[contribution.session]
            slot = slots[contribution.slot]
        made = _make_contribution(conference, session, slot, contribution, zone)
        if wanted.kind == CONFERENCE:
            _add_authors(made, contribution)
        else:
            for person in contribution.speakers:
                made.newSpeaker(_participation(ContributionParticipation(), person))
        _add_materials(made, contribution.materials)
        prewarm.prewarm_contribution(made)
    prewarm.prewarm_conference(conference)
    return conference


def _form_of(wanted):
    """Return what the form for a new event would send."""
    event_type, style = TYPES[wanted.kind]
    form = {
        'title': _bytes(wanted.title),
        'description': _bytes(wanted.description),
        'keywords': _bytes(wanted.keywords),
        'Timezone': _bytes(wanted.timezone),
        'locationName': _bytes(wanted.room.location),
        'locationAddress': _bytes(wanted.room.address),
        'roomName': _bytes(wanted.room.name),
        'eventType': event_type,
        'defaultStyle': style,
    }
    for prefix, moment in (('s', wanted.start), ('e', wanted.end)):
        for part in ('year', 'month', 'day', 'hour', 'minute'):
            form[prefix + part.capitalize()] = getattr(moment, part)
    return form


def _in_utc(moment, zone):
    return zone.localize(moment).astimezone(utc)


def _make_session(conference, number, wanted, zone):
    """Return session `number` of an event and a list of its slots."""
    first = wanted.slots[0]
    session = Session()
    session.setValues({
        'title': _bytes(wanted.title),
        'description': _bytes(wanted.description),
        'sDate': _in_utc(first.start, zone),
        'eDate': _in_utc(first.start + timedelta(minutes=first.duration), zone),
    })
    conference.addSession(session)
    session.setScheduleType('standard')
    text, background = SESSION_COLOURS[number % len(SESSION_COLOURS)]
    session.setTextColor(_bytes(text))
    session.setBgColor(_bytes(background))
    slots = [_make_slot(session, wanted, slot, zone) for slot in wanted.slots]
    return session, slots


def _make_slot(session, wanted, wanted_slot, zone):
    slot = SessionSlot(session)
    slot.setScheduleType('standard')
    slot.setTitle('')
    slot.setStartDate(_in_utc(wanted_slot.start, zone))
    slot.setDuration(dur=timedelta(minutes=wanted_slot.duration), check=2)
    session.addSlot(slot)
    for person in wanted.conveners:
        slot.addConvener(_participation(SlotChair(), person))
    _set_place(slot, wanted.room)
    return slot


def _set_place(owner, wanted):
    location, room = CustomLocation(), CustomRoom()
    owner.setLocation(location)
    location.setName(_bytes(wanted.location))
    location.setAddress(_bytes(wanted.address))
    owner.setRoom(room)
    room.setName(_bytes(wanted.name))
    if HelperMaKaCInfo.getMaKaCInfoInstance().getRoomBookingModuleActive():
        room.retrieveFullName(_bytes(wanted.location))
    else:
        room.setFullName(None)


def _make_contribution(conference, session, slot, wanted, zone):
    """Make a contribution without people, in a slot of a session or, with None, in neither."""
    contribution = Contribution()
    (session or conference).addContribution(contribution)
    _nothing_cached(contribution)
    contribution.setParent(conference)
    contribution.setTitle(_bytes(wanted.title), notify=False)
    contribution.setDescription(_bytes(wanted.description))
    contribution.setKeywords(_bytes(wanted.keywords))
    contribution.setDuration(0, wanted.duration)
    contribution.setStartDate(_in_utc(wanted.start, zone))
    (slot or conference).getSchedule().addEntry(contribution.getSchEntry(), 2)
    return contribution


def _add_authors(contribution, wanted):
    authors = dict((person, _participation(ContributionParticipation(), person))
                   for person in wanted.authors + wanted.co_authors)
    for person in wanted.authors:
        contribution.addPrimaryAuthor(authors[person])
    for person in wanted.co_authors:
        contribution.addCoAuthor(authors[person])
    for person in wanted.speakers:
        contribution.addSpeaker(authors[person])


def _add_materials(owner, wanted):
    """Give an event or a contribution its links, one in each `specification.Material`."""
    for material in wanted:
        link = Link()
        link.setURL(_bytes(material.url))
        link.setDescription('')
        link.setName(_bytes(material.name))
        owner.getMaterialRegistry().getById(_bytes(material.kind)).create(owner).addResource(link)


def _nothing_cached(contribution):
    """Save Indico a cache file: nobody has seen this contribution in a timetable yet."""
    ContextManager.set('clean%s' % contribution.getUniqueId(), True)


def _participation(participation, person):
    participation.setTitle(_bytes(person.title))
    participation.setFirstName(_bytes(person.first_name))
    participation.setFamilyName(_bytes(person.family_name))
    participation.setAffiliation(_bytes(person.affiliation))
    participation.setEmail(_bytes(person.email))
    return participation
