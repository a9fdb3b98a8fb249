"""`bulkload verify`: compares the loader's record with what the storage holds."""
from __future__ import print_function

import hashlib
import json
import sys

from MaKaC.common.indexes import IndexesHolder
from MaKaC.conference import CategoryManager, ConferenceHolder, Link
from ZODB.POSException import POSKeyError, ReadOnlyError
from indico.core.index import Catalog

from bulkloader import record
from bulkloader.database import connected, errors_for_operators, opened
from bulkloader.errors import INCOMPLETE, OK
from bulkloader.files import files_of
from bulkloader.model import TYPES
from bulkloader.specification import Contents

_COUNTED = ('contributions', 'sessions', 'slots', 'materials')
_BLOCK = 1 << 20     # bytes of a file in memory at a time
_CONTENTS = Contents()
_SHOWN = 20     # problems that are listed in words; JSON has all of them


class Report(object):
    """What was found: counts of what the record names and the storage really holds.

    `sessions`, `slots` and `materials` and what is expected of them do not speak of runs of
    generator 1, which had none.
    """

    def __init__(self):
        self.runs = self.finished = self.categories = self.conferences = 0
        self.contributions = self.schedule_entries = self.sessions = self.slots = 0
        self.materials = 0
        self.expected_conferences = self.expected_contributions = self.expected_sessions = 0
        self.expected_slots = self.expected_materials = self.files = self.expected_files = 0
        self.others = 0
        self.problems = []

    @property
    def complete(self):
        """Return True if there is a run, all are finished, and nothing is missing or wrong."""
        return bool(self.runs) and self.finished == self.runs and not self.problems

    def as_dict(self):
        return dict(vars(self), complete=self.complete)

    def in_words(self):
        lines = [
            '%d of %d runs finished' % (self.finished, self.runs),
            '%d categories' % self.categories,
            '%d of %d conferences' % (self.conferences, self.expected_conferences),
            '%d of %d contributions, %d in timetables' % (
                self.contributions, self.expected_contributions, self.schedule_entries),
            '%d of %d sessions with %d of %d blocks' % (
                self.sessions, self.expected_sessions, self.slots, self.expected_slots),
            '%d of %d materials' % (self.materials, self.expected_materials),
            '%d of %d files' % (self.files, self.expected_files),
            '%d other events in these categories' % self.others,
        ]
        lines.extend('! ' + problem for problem in self.problems[:_SHOWN])
        if len(self.problems) > _SHOWN:
            lines.append('! and %d more' % (len(self.problems) - _SHOWN))
        lines.append('complete' if self.complete else 'NOT complete')
        return '\n'.join(lines)


def verify(root):
    """Return a `Report` on the database under this root; changes nothing."""
    report = Report()
    runs = record.runs(root)
    calendar = _calendar() if runs else ()
    for run in runs:
        _verify_run(run, calendar, report)
    return report


def _calendar():
    """Return the ids of all conferences in Indico's index of starting dates.

    Its keys are not looked at: they depend on the time zone of the process that wrote them.
    """
    dates = IndexesHolder().getIndex('calendar').getIdxSdate()
    return set(conference_id for ids in dates.values() for conference_id in ids)


def _verify_run(run, calendar, report):
    report.runs += 1
    report.finished += run.finished
    report.expected_conferences += run.parameters.conferences
    for index in range(run.parameters.conferences):
        report.expected_files += len(run.expected(index).files)
        for name, count in run.expected(index)._asdict().items():
            if name in _COUNTED:
                setattr(report, 'expected_' + name, getattr(report, 'expected_' + name) + count)
    recorded = dict((conference_id, index) for index, conference_id in run.conferences.items())
    if len(recorded) != run.done:
        report.problems.append('the record names %d conferences where %d were made'
                               % (len(recorded), run.done))
    found = set()
    for category_id in run.categories:
        found |= _verify_category(category_id, run, recorded, calendar, report)
    report.problems.extend('conference %s is in none of the categories' % conference_id
                           for conference_id in sorted(set(recorded) - found, key=int))


def _verify_category(category_id, run, recorded, calendar, report):
    """Return the ids of the recorded conferences that a category holds."""
    if not CategoryManager().hasKey(category_id):
        report.problems.append('category %s is gone' % category_id)
        return set()
    report.categories += 1
    category = CategoryManager().getById(category_id)
    indexes = _Indexes(category_id, calendar)
    found = set()
    for conference in category.conferences:
        if conference.getId() not in recorded:
            report.others += 1
            continue
        found.add(conference.getId())
        report.conferences += 1
        expected = run.expected(recorded[conference.getId()])
        try:
            problems = indexes.problems(conference)
            problems += _verify_event(conference, expected, report)
            if recorded[conference.getId()] < run.with_files:
                problems += _verify_files(conference, expected.files, report)
        except POSKeyError as error:
            problems = ['object %s is missing' % error]
        report.problems.extend(
            'conference %s: %s' % (conference.getId(), problem) for problem in problems)
        category._p_jar.cacheGC()
    if category.getNumConferences() != len(category.conferences):
        report.problems.append('category %s counts %d events and holds %d' % (
            category_id, category.getNumConferences(), len(category.conferences)))
    return found


class _Indexes(object):
    """Indico's indexes as far as they tell of one category."""

    def __init__(self, category_id, calendar):
        holder = IndexesHolder()
        self._category_id = category_id
        self._category = set(holder.getIndex('category').getItems(category_id))
        self._dates = set(conference.getId() for _, conference
                          in Catalog.getIdx('categ_conf_sd').getCategory(category_id).iteritems())
        self._days = holder.getIndex('categoryDate')
        self._calendar = calendar
        self._titles = holder.getIndex('conferenceTitle')

    def problems(self, conference):
        """Return in words which indexes a conference lacks in."""
        its_id = conference.getId()
        day = self._days.getObjectsInDay(self._category_id, conference.getStartDate())
        listed = (
            ('the holder of events', ConferenceHolder().hasKey(its_id)),
            ('index category', its_id in self._category),
            ('index categ_conf_sd', its_id in self._dates),
            ('index categoryDate', conference in day),
            ('index calendar', its_id in self._calendar),
            ('index conferenceTitle', self._titles.getInteger(its_id) is not None),
        )
        return ['not in %s' % name for name, is_there in listed if not is_there]


def _verify_event(event, expected, report):
    """Load an event's sessions, contributions, timetables and materials.

    Returns problems in words; more of something than was made is none.
    """
    problems = []
    if expected.kind and TYPES[expected.kind][0] != event.getType():
        problems.append('is a %s, where a %s was made' % (event.getType(), expected.kind))
    entries = list(event.getSchedule().getEntries())
    counts = dict.fromkeys(_COUNTED, 0)
    for session in event.getSessionList():
        counts['sessions'] += 1
        problems += _verify_session(session, entries, counts)
    scheduled = set(entry.getOwner() for entry in entries if entry.getStartDate())
    for contribution in event.getContributionList():
        counts['contributions'] += 1
        report.schedule_entries += contribution in scheduled
        if contribution not in scheduled:
            problems.append('contribution %s is not in the timetable' % contribution.getId())
        _load_people(contribution.getAuthorList(), contribution.getSpeakerList())
    for owner in [event] + event.getContributionList():
        counts['materials'] += sum(bool(_links(each)) for each in owner.getAllMaterialList())
    _load_people(event.getChairList())
    for name in _COUNTED:
        setattr(report, name, getattr(report, name) + counts[name])
        wanted = getattr(expected, name)
        if counts[name] < wanted:
            problems.append('%d of %d %s' % (counts[name], wanted, name))
    return problems


def _verify_files(event, wanted, report):
    """Read the files of an event; return in words which are missing or differ."""
    problems = []
    found = files_of(event) if wanted else {}
    for each in wanted:
        resource = found.get(each.name.encode('ascii'))
        if resource is None:
            problems.append('file %s is missing' % each.name)
            continue
        report.files += 1
        try:
            with open(resource.getFilePath(), 'rb') as content:
                digest = hashlib.sha256()
                for block in iter(lambda: content.read(_BLOCK), b''):
                    digest.update(block)
        except EnvironmentError as error:
            problems.append('file %s cannot be read: %s' % (each.name, error.strerror))
            continue
        if digest.hexdigest() != _CONTENTS.sha256(each):
            problems.append('file %s has another content' % each.name)
    return problems


def _verify_session(session, entries, counts):
    """Count the slots of a session and adds their entries to those of the event."""
    problems = []
    listed = set(entry.getOwner() for entry in entries)
    for slot in session.getSlotList():
        counts['slots'] += 1
        if slot not in listed:
            problems.append('block %s of session %s is not in the timetable' % (
                slot.getId(), session.getId()))
        _load_people(slot.getConvenerList())
        slot.getRoom().getName()
        entries.extend(slot.getSchedule().getEntries())
    return problems


def _load_people(*lists):
    for people in lists:
        for person in people:
            person.getFullName()


def _links(material):
    return [link.getURL() for link in material.getResourceList() if isinstance(link, Link)]


def command(storage_conf, as_json, out=sys.stdout):
    """Run `bulkload verify`; return the exit code. Raises LoaderError."""
    with errors_for_operators():
        try:
            with opened(storage_conf, read_only=True) as manager:
                with connected(manager) as root:
                    report = verify(root)
        except ReadOnlyError:
            # an empty storage: ZODB wants to create the root
            report = Report()
    if as_json:
        print(json.dumps(report.as_dict(), sort_keys=True), file=out)
    else:
        print(report.in_words(), file=out)
    return OK if report.complete else INCOMPLETE
