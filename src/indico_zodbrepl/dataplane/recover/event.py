"""Recover one event from a recovery export under a new number, by Indico's own model.

    python -m indico_zodbrepl.dataplane.recover.event TAIL OID --user U [--dry-run]

For an event whose transaction conflicts because other events were created since: both sides used
the same number, and changed the same lists and indexes.  The event and all that belongs to it are
recovered in their last state in the export; Indico then gives it a number and lists it, as if it
had just been created.  References to it by its old number are not recovered: its short URL,
alarms, room bookings, and links of users other than creator, managers and chairs.

INDICO_CONF names an instance's indico.conf.  Prints one JSON object on standard output:
{"tail", "oid", "title", "category", "objects", "files", "files_missing", "event": new number or null,
"written"}

`files` are those attached to the event, with the contents that the export has; the entries of others,
`files_missing`, are lost.

exit status: as that of `program`; 5: the event cannot be recovered.
"""
from __future__ import absolute_import

import argparse
import json
import sys

from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, ReadOnlyError, StorageError

from indico_zodbrepl.dataplane.formats import NewerFormat
from indico_zodbrepl.dataplane.indico import instance
from indico_zodbrepl.dataplane.recover.database import Database, Notes, new_oids, write
from indico_zodbrepl.dataplane.recover.export import NoTail, Tail, Transaction
from indico_zodbrepl.dataplane.recover.plan import CONFLICTS, Plan
from indico_zodbrepl.dataplane.recover.program import (
    AWAY,
    BUSY,
    DONE,
    NEWER,
    NO_TAIL,
    NOTHING,
    USAGE,
)
from indico_zodbrepl.dataplane.recover.records import (
    class_of,
    references,
    state_of,
    stored_files,
)

CONFERENCE = 'MaKaC.conference.Conference'
DISPLAY = 'MaKaC.webinterface.displayMgr.ConfDisplayMgr'
ATTACHED = 'MaKaC.conference.LocalFile'
ARCHIVED_AS = '_LocalFile__archivedId'
# Lost objects that an event may refer to and that are useless without lists of their own.
LISTED = (CONFERENCE, 'MaKaC.conference.Category', 'MaKaC.user.Avatar', 'MaKaC.user.Group')


class CanNotRecover(Exception):
    """The event cannot be recovered; the text says why."""


class LostEvent(object):
    """An event of a recovery export, with all the new objects that belong to it.

    Args:
        tail: an `export.Tail`.
        oid: the event's.
        database, notes: a `Database`, and the `Notes` of the export.

    Attributes:
        plan: a `plan.Plan` that recovers them.
        verdicts: the `Verdict` of each.
        display: oid of the lost object that describes its pages, or None.
        files: [(oid of the attached file, its id, its entry as of `records.stored_files`)] of those
            whose content is known.
        files_missing: how many others are attached.
    """

    def __init__(self, tail, oid, database, notes):
        last = tail.transactions[-1].tid if tail.transactions else tail.after
        record = tail.latest(oid, last)
        if record is None or oid not in tail.created or class_of(record.data) != CONFERENCE:
            raise CanNotRecover('%s is no event that was made in this tail' % oid.encode('hex'))
        self.record = record
        pages = [tail.latest(each, last) for each in tail.created if each != oid]
        pages = [each for each in pages if each.data and class_of(each.data) == DISPLAY
                 and oid in references(each.data)]
        self.display = pages[0].oid if pages else None
        records = [record] + pages[:1]
        self.plan = Plan(tail, database, notes.oids, notes.done)
        self.verdicts = self.plan.consider(
            Transaction(last, '', '', records), {each.oid for each in records})
        for verdict in self.verdicts:
            self._check(verdict)
        self.files, self.files_missing = [], 0
        self._add_files(tail, last)
        taken = {verdict.record.oid for verdict in self.verdicts}
        self.records = [(each.tid, record.oid) for each in tail.transactions
                        for record in each.records if record.oid in taken]

    def _add_files(self, tail, last):
        """Add the contents of the attached files, which the repository refers to, not the event."""
        stored = {}
        for transaction in tail.transactions:
            for record in transaction.records:
                stored.update(stored_files(record.data))
        for record in [verdict.record for verdict in self.verdicts]:
            if class_of(record.data) != ATTACHED:
                continue
            number = state_of(record.data).get(ARCHIVED_AS)
            entry = stored.get(number)
            if entry is None or isinstance(entry, tuple) and not self._add_blob(
                    tail, last, entry[1].oid):
                self.files_missing += 1
            else:
                self.files.append((record.oid, number, entry))

    def _add_blob(self, tail, last, oid):
        record = tail.latest(oid, last)
        if record is None or oid not in tail.created:
            return False
        found = self.plan.consider(Transaction(last, '', '', [record]), {oid})
        if any(verdict.outcome == CONFLICTS for verdict in found):
            return False
        self.verdicts += found
        return True

    def _check(self, verdict):
        if verdict.outcome == CONFLICTS:
            raise CanNotRecover('%s: %s' % (verdict.record.what, verdict.why))
        named = class_of(verdict.record.data)
        if named in LISTED and verdict.record.oid != self.record.oid:
            raise CanNotRecover('it needs %s, which was lost too' % verdict.record.what)


def enlist(oid, display_oid, files, description, user):
    """Give a recovered event a number and list it, in one transaction.

    Args:
        files: [(oid of an attached file, its id, its entry)]; of a blob the entry has the oid.

    Returns its number, its title and its category's name.
    """
    import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
    import transaction
    from indico.core.db import DBMgr
    from indico.util.contextManager import ContextManager
    from MaKaC.conference import ConferenceHolder
    from MaKaC.webinterface.displayMgr import ConfDisplayMgrRegistery

    from indico_zodbrepl.dataplane.indico.prewarm import prewarm_conference
    manager = DBMgr.getInstance()
    manager.startRequest()
    done = False
    try:
        ContextManager.set('autoOps', [])
        connection = manager.getDBConnection()
        event = connection.get(oid)
        for attached, number, entry in files:
            stored = connection.get(attached).getRepository().getFiles()
            if isinstance(entry, tuple):
                entry = entry[:1] + (connection.get(entry[1]),) + entry[2:]
            if number not in stored:
                stored[number] = entry
        category = event.getOwner()
        event._Conference__owners = []
        event.setId('')
        number = ConferenceHolder().add(event)
        if display_oid is not None:
            ConfDisplayMgrRegistery().registerDisplayMgr(event, connection.get(display_oid))
        category._addConference(event)
        event.linkCreator()
        for role, people in (('manager', event.getManagerList()),
                             ('chair', event.getChairList())):
            for person in people:
                if hasattr(person, 'linkTo'):
                    person.linkTo(event, role)
        event._notify('created', category)
        prewarm_conference(event)
        transaction.get().setUser(user)
        transaction.get().note(description)
        told = number, event.getTitle(), category.getName()
        done = True
        return told
    finally:
        ContextManager.destroy()
        manager.endRequest(done)


def recover_event(tail, oid, user, dry_run):
    """Recover an event and return the result for standard output.

    Raises CanNotRecover, ConflictError, StorageError.
    """
    from indico.core.db import DBMgr
    storage = DBMgr.getInstance()._db.storage
    database = Database(storage)
    notes = Notes(tail.folder, database)
    if oid in notes.oids:
        raise CanNotRecover('it was recovered already, as object %s'
                            % notes.oids[oid].encode('hex'))
    lost = LostEvent(tail, oid, database, notes)
    said = {'tail': tail.name, 'oid': oid.encode('hex'), 'title': lost.record.what,
            'category': None, 'objects': len(lost.plan.writes), 'files': len(lost.files),
            'files_missing': lost.files_missing, 'event': None, 'written': None}
    if dry_run:
        return said
    description = u'recovered from lost tail %s, transaction %s' % (
        tail.name.decode('utf-8', 'replace'), lost.record.tid.encode('hex'))
    oids = new_oids(storage, lost.plan)
    found = {each: oids[now] for each, now in lost.plan.oids.items() if now in oids}
    write(database, lost.plan, oids, user, description + u': the objects')
    files = [(found[attached], number,
              entry[:1] + (found[entry[1].oid],) + entry[2:] if isinstance(entry, tuple) else entry)
             for attached, number, entry in lost.files]
    said['event'], title, category = enlist(
        found[oid], found.get(lost.display), files, description, user)
    notes.begin(lost.records, found)
    notes.finish(Database(storage).current(found[oid])[1])
    said.update(title=title.decode('utf-8', 'replace'),
                category=category.decode('utf-8', 'replace'),
                written=storage.lastTransaction().encode('hex'))
    return said


def _oid(text):
    try:
        return text.decode('hex')
    except TypeError:
        raise argparse.ArgumentTypeError('%r is no hexadecimal oid' % text)


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog='python -m indico_zodbrepl.dataplane.recover.event',
        description='Recover one event of a recovery export under a new number.')
    parser.add_argument('tail', metavar='TAIL')
    parser.add_argument('oid', metavar='OID', type=_oid)
    parser.add_argument('--user', required=True, type=lambda text: text.decode('utf-8', 'replace'))
    parser.add_argument('--dry-run', action='store_true')
    options = parser.parse_args(argv)
    try:
        instance.require()
        said = recover_event(Tail(options.tail), options.oid, options.user,
                             options.dry_run)
    except instance.Missing as error:
        status = USAGE
    except NewerFormat as error:
        status = NEWER
    except NoTail as error:
        status = NO_TAIL
    except CanNotRecover as error:
        status = NOTHING
    except ConflictError as error:
        status = BUSY
    except (ClientDisconnected, ReadOnlyError, StorageError) as error:
        status = AWAY
    else:
        json.dump(said, sys.stdout)
        sys.stdout.write('\n')
        return DONE
    sys.stderr.write('recover_event: %s: %s\n' % (type(error).__name__, error))
    return status


if __name__ == '__main__':
    sys.exit(main())
