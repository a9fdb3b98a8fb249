"""A recovery export, as ``datafs export`` writes it: transactions and their records."""
from __future__ import absolute_import

import collections
import json
import os

from ZODB.FileStorage import FileStorage

from indico_zodbrepl.dataplane.formats import refuse_newer
from indico_zodbrepl.dataplane.recover.records import class_of


class NoTail(Exception):
    """The folder holds no readable recovery export; the text says why."""


# file: path of the exported file of a blob; None if it was missing, or for another object.
Record = collections.namedtuple('Record', 'tid oid data is_new what file')


class Transaction(object):
    """A divergent transaction.

    Attributes:
        tid: its id, 8 bytes.
        user, description: as bytes.
        records: list of `Record`, one an object; its data is None where a creation was undone.
    """

    def __init__(self, tid, user, description, records):
        self.tid = tid
        self.user = user
        self.description = description
        self.records = records


class Tail(object):
    """A recovery export; read completely, so it must fit into memory.

    Args:
        path: the exported folder, or the tail.fs in it.

    Attributes:
        folder: the exported folder.
        after: id of the transaction after which it begins, 8 bytes.
        transactions: list of `Transaction`, the oldest first.
        created: {oid: tid} of the objects that it created.

    Raises NoTail.
    """

    def __init__(self, path):
        self.folder = os.path.dirname(path) if path.endswith('.fs') else os.path.normpath(path)
        described = self._read_description()
        try:
            self.after = described['after'].decode('hex')
            notes = {(transaction['tid'], each['oid']): each
                     for transaction in described['transactions']
                     for each in transaction['objects']}
        except (KeyError, TypeError) as error:
            raise NoTail('%s/tail.json: %s: %s' % (self.folder, type(error).__name__, error))
        self.transactions = self._read_transactions(notes)
        self.created = {}
        self._revisions = collections.defaultdict(list)
        for transaction in self.transactions:
            for record in transaction.records:
                self._revisions[record.oid].append(record)
                if record.is_new:
                    self.created.setdefault(record.oid, record.tid)

    @property
    def name(self):
        return os.path.basename(self.folder)

    def before(self, oid, tid):
        """Return the export's last `Record` of an object before a transaction, or None."""
        found = None
        for record in self._revisions[oid]:
            if record.tid < tid:
                found = record
        return found

    def latest(self, oid, tid):
        """Return the export's last `Record` of an object in or before a transaction, or None."""
        at = [record for record in self._revisions[oid] if record.tid <= tid]
        return at[-1] if at else None

    def _read_description(self):
        path = os.path.join(self.folder, 'tail.json')
        try:
            with open(path) as description:
                values = json.load(description)
        except (IOError, ValueError) as error:
            raise NoTail('%s: %s' % (path, error))
        refuse_newer(path, values)
        return values

    def _read_transactions(self, notes):
        path = os.path.join(self.folder, 'tail.fs')
        if not os.path.isfile(path):
            raise NoTail('%s: there is no such file' % path)
        storage = FileStorage(path, read_only=True)
        try:
            return [Transaction(each.tid, each.user, each.description, [
                self._record(record, notes.get((each.tid.encode('hex'), record.oid.encode('hex')), {}))
                for record in each]) for each in storage.iterator()]
        finally:
            storage.close()

    def _record(self, record, note):
        what = note.get('what') or note.get('class') or (
            class_of(record.data) if record.data else 'undone creation')
        path = note.get('blob') and os.path.join(self.folder, note['blob'])
        return Record(record.tid, record.oid, record.data, note.get('change') == 'new', what, path)
