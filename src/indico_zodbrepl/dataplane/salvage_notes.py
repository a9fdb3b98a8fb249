"""What of a lost tail was salvaged already: salvaged.json in its folder."""
import json
import os

from .datafs import disk

FORMAT = 1


class Notes(object):
    """Salvages of one tail; each is noted before it is written and once more afterwards.

    Args:
        folder: the tail's folder.
        database: a `salvage_database.Database`; tells whether a salvage that was interrupted
            was written: its new objects are there then.

    Attributes:
        done: {(lost tid, lost oid)} of the records that were made again.
        oids: {lost oid: oid} of the new objects that were.
    """

    def __init__(self, folder, database):
        self._path = os.path.join(folder, 'salvaged.json')
        self._salvages = self._read()
        for salvage in self._salvages:
            if salvage['tid'] is None:
                there = [now for now in (database.current(oid.decode('hex'))
                                         for oid in sorted(salvage['oids'].values())) if now]
                salvage['tid'] = there[0][1].encode('hex') if there else None
        self._salvages = [salvage for salvage in self._salvages if salvage['tid']]
        self.done = {tuple(part.decode('hex') for part in record.split(':'))
                     for salvage in self._salvages for record in salvage['records']}
        self.oids = {lost.decode('hex'): oid.decode('hex')
                     for salvage in self._salvages for lost, oid in salvage['oids'].items()}

    def begin(self, records, oids):
        """Notes that (lost tid, lost oid) are about to be made again, with these {lost oid: oid}."""
        self._salvages.append({
            'tid': None,
            'records': sorted('%s:%s' % (tid.encode('hex'), oid.encode('hex'))
                              for tid, oid in records),
            'oids': {lost.encode('hex'): oid.encode('hex') for lost, oid in oids.items()}})
        self._write()

    def finish(self, tid):
        """Notes that what was begun last has been written."""
        self._salvages[-1]['tid'] = tid.encode('hex')
        self._write()

    def forget(self):
        """Notes that what was begun last was not written."""
        self._salvages.pop()
        self._write()

    def _read(self):
        if not os.path.exists(self._path):
            return []
        with open(self._path) as notes:
            return json.load(notes)['salvages']

    def _write(self):
        disk.write_file(self._path, [json.dumps(
            {'format': FORMAT, 'salvages': self._salvages}, indent=1, sort_keys=True)])
