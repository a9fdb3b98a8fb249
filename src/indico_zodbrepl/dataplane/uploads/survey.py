"""Count the entries of the file repositories and what lies in the archive; change nothing."""
from __future__ import absolute_import

import os
from collections import namedtuple

from indico_zodbrepl.dataplane.uploads import entries
from indico_zodbrepl.dataplane.uploads.database import CLEANED_EVERY

OURS = '.zodbrepl-'  # names of files in the archive that are not uploaded
NAMED = 20  # files without an entry that are named

# place, path: of an entry. size: bytes, of the file in the archive or in the database.
Found = namedtuple('Found', 'place path size')


class Survey(object):
    """The entries of a database.

    Args:
        database: a `Database`.
        folders: {name of a repository: folder of its archived files}.

    Attributes:
        archived, stored: lists of `Found`, by path: in the archive, and in the database.
        missing: descriptions of archived entries without a file.
    """

    def __init__(self, database, folders):
        self.archived, self.stored, self.missing = [], [], []
        self._folders = folders
        self._with_indico = database.with_indico
        self._paths = set()
        database.refresh()
        for name, files in sorted(entries.repositories(database.root).items()):
            for number, (key, value) in enumerate(files.items()):
                if number % CLEANED_EVERY == 0:
                    database.tidy()
                self._see(entries.Place(name, key), value)
        self.archived.sort(key=lambda found: found.path)
        self.stored.sort(key=lambda found: found.path)

    def changeable(self, found):
        """Return those of a list of `Found` whose entries can be changed."""
        return [each for each in found
                if self._with_indico or each.place.repository != entries.DELETED]

    def _see(self, place, value):
        if not entries.is_archived(value):
            content = entries.Content(*value)
            self.stored.append(Found(place, content.path, content.size))
            self._paths.add(hash(os.path.join(self._folders[place.repository], content.path)))
            return
        path = entries.find(self._folders[place.repository], value)
        size = None if path is None else _size(path)
        if size is None:
            self.missing.append(entries.described(place, value))
        else:
            self.archived.append(Found(place, value, size))
            self._paths.add(hash(path))

    def unreferenced(self):
        """Return the files in the archive that no entry refers to: number, bytes, some paths."""
        files, size, named = 0, 0, []
        for top in sorted(set(self._folders.values())):
            for folder, _, names in os.walk(top):
                for name in names:
                    path = os.path.join(folder, name)
                    if hash(path) in self._paths or name.startswith(OURS):
                        continue
                    files += 1
                    size += _size(path) or 0
                    if len(named) < NAMED:
                        named.append(os.path.relpath(path, top).decode('utf-8', 'replace'))
        return {'files': files, 'bytes': size, 'named': sorted(named)}

    def as_dict(self, unreferenced):
        """Return the answer of the program; with `unreferenced` also the files without entry."""
        return {'archived': amount(self.archived), 'stored': amount(self.stored),
                'missing': self.missing,
                'unreferenced': self.unreferenced() if unreferenced else None}


def _size(path):
    """Return the bytes of a file; None if it has vanished."""
    try:
        return os.lstat(path).st_size if os.path.islink(path) else os.path.getsize(path)
    except OSError:
        return None


def amount(found):
    """Return number and bytes of a list of `Found`."""
    return {'files': len(found), 'bytes': sum(each.size for each in found)}


def batches(found, most_files, most_bytes):
    """Yield lists of `Found`, each with at most so many files and bytes; a large file alone."""
    batch, size = [], 0
    for each in found:
        if batch and (len(batch) == most_files or size + each.size > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += each.size
    if batch:
        yield batch
