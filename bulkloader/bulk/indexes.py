"""What Indico changes outside of an event when it makes one, done for many events at once.

Where Indico's own code is quick enough it is called, with an `Entry` in the place of the event;
what it does slowly (sets of events by day and date) is in `sets`.
"""
from collections import defaultdict
from datetime import timedelta

from BTrees.OOBTree import OOSet, OOTreeSet
from indico.core.index import Catalog
from indico.util.date_time import utc_timestamp
from MaKaC.common.indexes import CalendarDayIndex, IndexesHolder
from MaKaC.conference import ConferenceHolder
from MaKaC.fileRepository import MaterialLocalRepository
from MaKaC.webinterface.displayMgr import ConfDisplayMgr, ConfDisplayMgrRegistery
from MaKaC.webinterface.internalPagesMgr import InternalPagesMgr, InternalPagesMgrRegistery
from MaKaC.webinterface.webFactoryRegistry import WebFactoryRegistry

from bulkloader.bulk.names import ghost

TOP = '0'
_VISIBLE_EVERYWHERE = 999       # the visibility of an event that Indico makes
_DAY = 24 * 60 * 60
_TITLES_BEFORE = 2              # numbers that the index of titles used up when Indico made an event


class Entry(object):
    """An event as the indexes see it; the methods have the names that Indico's events have.

    Args:
        its_id: text of digits.
        event: the stand-in for it, of `names.stand_in`.
        display_oid, pages_oid: of its menu and of its own pages.
        event_type: Indico's name of the kind of event.
        has_materials: whether there is a material in it.
        title: UTF-8.
        start, end: with time zone UTC.
        path: the categories that it is in, from its own up, without the top one.
    """

    def __init__(self, its_id, event, display_oid, pages_oid, event_type, has_materials, title,
                 start, end, path):
        self._id = its_id
        self.event = event
        self.display_oid = display_oid
        self.pages_oid = pages_oid
        self.event_type = event_type
        self.has_materials = has_materials
        self.title = title
        self._start = start
        self._end = end
        self._path = path

    def getId(self):
        return self._id

    def getStartDate(self):
        return self._start

    def getEndDate(self):
        return self._end

    def getOwnerPath(self):
        return self._path

    def getFullVisibility(self):
        return max(0, min(_VISIBLE_EVERYWHERE, self._path[0].getVisibility()))

    def days(self):
        """Return the days on which it takes place as seconds since 1970."""
        first = utc_timestamp(self._start) // _DAY * _DAY
        return range(first, utc_timestamp(self._end) + 1, _DAY)


def add_entries(connection, entries, creator, names, sets):
    """Add events to everything that Indico keeps of events.

    Args:
        connection: the open ZODB connection in which Indico works.
        entries: `Entry`s by ascending number of their ids.
        creator: the `Avatar` that made them.
        names: `Names`; gets the new ones.
        sets: `Sets` of this transaction.
    """
    for entry in entries:
        names.add(entry.getId(), entry.event._p_oid)
    _holders(connection, entries, creator)
    _indexes(entries)
    by_path = defaultdict(list)
    for entry in entries:
        by_path[tuple(category.getId() for category in entry.getOwnerPath())].append(entry)
    for together in by_path.values():
        _category(together)
        _starts(together, sets)
    groups = [(_categories(together[0]), _by_day(together)) for together in by_path.values()]
    seen = [(ids[:together[0].getFullVisibility()], by_day)
            for (ids, by_day), together in zip(groups, by_path.values())]
    holder = IndexesHolder()
    of_seen, of_all = holder.getIndex('categoryDate'), holder.getIndex('categoryDateAll')
    if seen == groups:
        _days((of_seen, of_all), groups, sets)
    else:
        _days((of_seen,), seen, sets)
        _days((of_all,), groups, sets)


def _holders(connection, entries, creator):
    events = [(entry.getId(), entry.event) for entry in entries]
    ConferenceHolder()._getIdx().update(events)
    ConfDisplayMgrRegistery()._getDisplayMgrRegistery().update([
        (entry.getId(), ghost(connection, ConfDisplayMgr, entry.display_oid)) for entry in entries])
    InternalPagesMgrRegistery()._getInternalPagesMgrRegistery().update([
        (entry.getId(), ghost(connection, InternalPagesMgr, entry.pages_oid)) for entry in entries])
    if any(entry.has_materials for entry in entries):
        MaterialLocalRepository.getRepositoryFromDB()
    registry = WebFactoryRegistry()
    registry._getConfRegistry()     # Indico makes it for any kind of event
    for entry in entries:
        factory = registry.getFactoryById(entry.event_type)
        if factory is not None:
            registry.registerFactory(entry, factory)
    creator.getLinkTo('conference', 'creator').update(event for _, event in events)


def _indexes(entries):
    holder = IndexesHolder()
    category, calendar = holder.getIndex('category'), holder.getIndex('calendar')
    titles = holder.getIndex('conferenceTitle')
    for entry in entries:
        category.indexConf(entry)
        calendar.indexConf(entry)
        titles._counter += _TITLES_BEFORE
        titles.index(entry.getId(), entry.title.decode('utf-8'))


def _category(entries):
    category = entries[0].getOwnerPath()[0]
    category.conferences.update(entry.event for entry in entries)
    category._incNumConfs(len(entries))


def _starts(entries, sets):
    """Add events of one category to the catalogue of starting dates."""
    index = Catalog.getIdx('categ_conf_sd').getCategory(entries[0].getOwnerPath()[0].getId())
    by_start = defaultdict(list)
    for entry in entries:
        start = utc_timestamp(entry.getStartDate())
        by_start[start].append(entry.getId())
        index._rev_index['a' + entry.getId()] = sets.make_moment(start)
    for start, ids in by_start.items():
        existing = index._fwd_index.get(start)
        if existing is None:
            index._fwd_index[start] = sets.make(OOTreeSet, ids)
        else:
            sets.add(existing, ids)
    index._num_objs.change(len(entries))


def _categories(entry):
    """Return the ids of all categories that an event is in, from its own up to the top one."""
    return [category.getId() for category in entry.getOwnerPath()] + [TOP]


def _by_day(entries):
    """Return {day: ids of the events that take place on it}."""
    by_day = defaultdict(list)
    for entry in entries:
        for day in entry.days():
            by_day[day].append(entry.getId())
    return by_day


def _days(indexes, groups, sets):
    """Add events to indexes of days, which get the same.

    Args:
        groups: (ids of categories, {day: ids of events in all of these}).
    """
    by_category = defaultdict(lambda: defaultdict(list))
    for category_ids, by_day in groups:
        for category_id in category_ids:
            together = by_category[category_id]
            for day, ids in by_day.iteritems():
                together[day].extend(ids)
    for category_id, by_day in by_category.iteritems():
        each_days = [_days_of(index, category_id) for index in indexes]
        for day, ids in by_day.iteritems():
            for days in each_days:
                existing = days.get(day)
                if existing is None:
                    days[day] = sets.make(OOSet, ids)
                else:
                    sets.add(existing, ids, remember=category_id == TOP)


def _days_of(index, category_id):
    if category_id not in index._idxCategItem:
        index._idxCategItem[category_id] = CalendarDayIndex()
    return index._idxCategItem[category_id]._idxDay
