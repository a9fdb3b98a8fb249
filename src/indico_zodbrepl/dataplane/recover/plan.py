"""Decide which divergent changes can be applied to the present database; write nothing.

Each divergent transaction is applied or left out as a whole, in commit order: its changes are
applied to the present state of the database, as if it were committed again.
"""
from __future__ import absolute_import

import collections
import os

from ZODB.blob import is_blob_record
from ZODB.utils import p64, u64

from indico_zodbrepl.dataplane.recover.merge import CanNotMerge, merged
from indico_zodbrepl.dataplane.recover.records import (
    differences,
    is_readable,
    oid_text,
    references,
    remapped,
)

NOT_YET = 1 << 62  # from here on: provisional oids; objects get a real one when they are written

NEW, UNCHANGED, CHANGED, GONE, THERE = 'new', 'unchanged', 'changed', 'gone', 'there'
APPLIES, MERGES, HAS_IT, CONFLICTS = 'applies', 'merges', 'has it', 'conflicts'

# data: what would be written; None unless the outcome is APPLIES or MERGES
Verdict = collections.namedtuple('Verdict', 'record relation outcome why data differences')


class Plan(object):
    """The applicable changes of a recovery export.

    Args:
        tail: an `export.Tail`.
        database: a `database.Database`, or an object with the same methods.
        oids: {lost oid: oid} of the new objects that earlier recoveries from this export created.
        done: {(tid, oid)} of the records that were recovered earlier.

    Attributes:
        writes: {oid: data} to be written; oids from NOT_YET on are of new objects.
        blobs: {oid: path} of the exported files of those of them that are blobs.
        oids: {lost oid: oid} of the export's new objects that exist or will be created.
    """

    def __init__(self, tail, database, oids, done):
        self.writes = {}
        self.blobs = {}
        self.oids = dict(oids)
        self._done = done
        self._tail = tail
        self._database = database
        self._fresh = 0
        # If the export holds objects that the database has too: only those that it lacks.
        self._created = {oid: tid for oid, tid in tail.created.items()
                         if not database.has(oid, tid)}

    def consider(self, transaction, picked=None):
        """Apply a divergent transaction if all of it can be; return a `Verdict` for each record.

        Args:
            picked: oids of the selected records; the new objects that they refer to are included.
                None for all.
        """
        records = transaction.records
        if picked is not None:
            records = self._with_new_objects(transaction.tid, [
                record for record in records if record.oid in picked])
        before = dict(self.writes), dict(self.blobs), dict(self.oids)
        for record in records:
            if record.oid in self._created and record.oid not in self.oids and (
                    record.is_new or picked is not None):
                self.oids[record.oid] = self._not_yet()
        verdicts = [self._verdict(record) for record in records]
        if any(verdict.outcome == CONFLICTS for verdict in verdicts):
            self.writes, self.blobs, self.oids = before
        return verdicts

    def _not_yet(self):
        self._fresh += 1
        return p64(NOT_YET + self._fresh)

    def _with_new_objects(self, tid, records):
        """Return records, including those of the new objects that they refer to."""
        found = collections.OrderedDict((record.oid, record) for record in records)
        todo = list(records)
        while todo:
            record = todo.pop()
            for oid in sorted(references(record.data) if is_readable(record.data) else ()):
                if oid in found or oid in self.oids or oid not in self._created:
                    continue
                other = self._tail.latest(oid, tid)
                if other is not None:
                    found[oid] = other
                    todo.append(other)
        return list(found.values())

    def _verdict(self, record):
        try:
            relation, outcome, why, data, changes = self._decide(record)
        except CanNotMerge as error:
            relation, base, current = self._relation(record)
            outcome, why, data = CONFLICTS, str(error), None
            changes = differences(base, record.data) if is_readable(record.data) else []
        if data is not None:
            self.writes[self._oid(record.oid)] = data
            if is_blob_record(data):
                self.blobs[self._oid(record.oid)] = record.file
        return Verdict(record, relation, outcome, why, data, changes)

    def _decide(self, record):
        if record.data is None:
            raise CanNotMerge('it undid the creation of the object')
        if not is_readable(record.data):
            raise CanNotMerge('its record is damaged')
        relation, base, current = self._relation(record)
        if is_blob_record(record.data):
            relation = self._blob_relation(record, relation)
        if relation == THERE:
            return relation, HAS_IT, '', None, []
        if relation == GONE:
            raise CanNotMerge('the object was made by a lost transaction that is left out'
                              if record.oid in self._created
                              else 'the database no longer has this object')
        if is_blob_record(record.data):
            return self._decide_blob(record, relation)
        data = self._mapped(record.data, current)
        if relation == NEW:
            return relation, APPLIES, '', data, []
        changes = differences(base, record.data) if base else []
        if relation == UNCHANGED:
            return (relation, HAS_IT, '', None, changes) if data == current else (
                relation, APPLIES, '', data, changes)
        if base is None:
            raise CanNotMerge('changed on both sides, and packing removed what it was before')
        return relation, MERGES, '', merged(remapped(base, self.oids), current, data), changes

    def _blob_relation(self, record, relation):
        """Return the relation of the database to a blob, whose records are all the same."""
        if relation not in (UNCHANGED, CHANGED):
            return relation
        oid = self._oid(record.oid)
        if oid in self.blobs:
            return UNCHANGED
        if self._database.current(oid)[1] <= self._tail.after:
            return UNCHANGED
        earlier = self._tail.before(record.oid, record.tid)
        same = earlier is not None and earlier.file and self._database.has_content(
            oid, earlier.file)
        return UNCHANGED if same else CHANGED

    def _decide_blob(self, record, relation):
        if record.file is None or not os.path.isfile(record.file):
            raise CanNotMerge('its file was missing when it was exported')
        if not self._database.keeps_blobs():
            raise CanNotMerge('the database keeps no blobs; the file is %s' % record.file)
        size = os.path.getsize(record.file)
        if relation == NEW:
            return relation, APPLIES, '', record.data, []
        if self._oid(record.oid) not in self.blobs and self._database.has_content(
                self._oid(record.oid), record.file):
            return relation, HAS_IT, '', None, []
        if relation == CHANGED:
            raise CanNotMerge('changed on both sides; the lost file is %s' % record.file)
        return relation, APPLIES, '', record.data, [
            {'field': u'content', 'old': None, 'new': u'%d bytes' % size}]

    def _relation(self, record):
        """Return the relation of the database to a record, the base data, and the current data."""
        if ((record.tid, record.oid) in self._done
                or self._database.has(record.oid, record.tid)):
            return THERE, None, None
        earlier = self._tail.before(record.oid, record.tid)
        base = earlier.data if earlier else self._database.as_of(record.oid, self._tail.after)
        left_out = record.oid in self._created and record.oid not in self.oids
        current = None if left_out else self._now(record.oid)
        if current is None:
            new = record.oid in self.oids
            return (NEW, None, None) if new else (GONE, base, None)
        same = base is not None and remapped(base, self.oids) == current
        return (UNCHANGED if same else CHANGED), base, current

    def _now(self, oid):
        oid = self._oid(oid)
        if oid in self.writes:
            return self.writes[oid]
        found = self._database.current(oid) if u64(oid) < NOT_YET else None
        return found[0] if found else None

    def _oid(self, oid):
        return self.oids.get(oid, oid)

    def _mapped(self, data, current):
        """Return a lost record with the oids of the database."""
        known = references(current) if current else ()
        for oid in references(data):
            if oid in self._created and oid not in self.oids:
                raise CanNotMerge('it refers to object %s, made by lost transaction %s, '
                                  'which is left out' % (
                                      oid_text(oid), oid_text(self._created[oid])))
            there = self._oid(oid)
            if (there not in known and u64(there) < NOT_YET
                    and self._database.current(there) is None):
                raise CanNotMerge('it refers to object %s, which the database no longer has'
                                  % oid_text(oid))
        return remapped(data, self.oids)
