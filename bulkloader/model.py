"""Makes categories, conferences and contributions by Indico's own calls.

All functions need an open connection (`DBMgr.startRequest()`) and never commit.
"""
from MaKaC.common.contextManager import ContextManager
from MaKaC.conference import ConferenceChair, Contribution, ContributionParticipation
from MaKaC.webinterface.rh.categoryDisplay import UtilsConference
from indico_zodbrepl.dataplane import prewarm
from pytz import timezone


def begin_batch():
    """Forgets what Indico remembers between the objects of one request."""
    ContextManager.destroy()
    ContextManager.set('autoOps', [])


def _bytes(text):
    return text.encode('utf-8')


def make_categories(parent, tree):
    """Makes the categories of `Specification.category_tree` below `parent`.

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
    """Makes a `specification.Conference` in a category and returns Indico's object."""
    zone = timezone(wanted.timezone)
    conference = category.newConference(creator)
    UtilsConference.setValues(conference, _form_of(wanted))
    for person in wanted.chairs:
        conference.addChair(_participation(ConferenceChair(), person))
    for contribution in wanted.contributions:
        _make_contribution(conference, contribution, zone)
    prewarm.prewarm_conference(conference)
    return conference


def _form_of(wanted):
    """Returns what the form for a new event would send."""
    form = {
        'title': _bytes(wanted.title),
        'description': _bytes(wanted.description),
        'keywords': _bytes(wanted.keywords),
        'Timezone': _bytes(wanted.timezone),
        'locationName': _bytes(wanted.room.location),
        'locationAddress': _bytes(wanted.room.address),
        'roomName': _bytes(wanted.room.name),
        'eventType': 'conference',
        'defaultStyle': 'static',
    }
    for prefix, moment in (('s', wanted.start), ('e', wanted.end)):
        for part in ('year', 'month', 'day', 'hour', 'minute'):
            form[prefix + part.capitalize()] = getattr(moment, part)
    return form


def _make_contribution(conference, wanted, zone):
    contribution = Contribution()
    conference.addContribution(contribution)
    _nothing_cached(contribution)
    contribution.setParent(conference)
    contribution.setTitle(_bytes(wanted.title), notify=False)
    contribution.setDescription(_bytes(wanted.description))
    contribution.setKeywords(_bytes(wanted.keywords))
    contribution.setDuration(0, wanted.duration)
    contribution.setStartDate(zone.localize(wanted.start).astimezone(timezone('UTC')))
    conference.getSchedule().addEntry(contribution.getSchEntry(), 2)
    authors = dict((person, _participation(ContributionParticipation(), person))
                   for person in wanted.authors + wanted.co_authors)
    for person in wanted.authors:
        contribution.addPrimaryAuthor(authors[person])
    for person in wanted.co_authors:
        contribution.addCoAuthor(authors[person])
    for person in wanted.speakers:
        contribution.addSpeaker(authors[person])
    prewarm.prewarm_contribution(contribution)


def _nothing_cached(contribution):
    """Saves Indico a cache file: nobody has seen this contribution in a timetable yet."""
    ContextManager.set('clean%s' % contribution.getUniqueId(), True)


def _participation(participation, person):
    participation.setTitle(_bytes(person.title))
    participation.setFirstName(_bytes(person.first_name))
    participation.setFamilyName(_bytes(person.family_name))
    participation.setAffiliation(_bytes(person.affiliation))
    participation.setEmail(_bytes(person.email))
    return participation
