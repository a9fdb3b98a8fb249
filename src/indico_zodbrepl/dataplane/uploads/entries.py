"""The entries of Indico's file repositories (no I/O but of the archive's names).

A repository maps the id of a file to its path in the archive, or, for a file in the database, to
a tuple that begins with that path.  A deleted file has its entry itself, for Indico can restore it.
"""
from __future__ import absolute_import

import os
import re
import sys
from collections import namedtuple

MAIN, OFFLINE = 'main', 'offline'
DELETED = 'deleted'  # stands for a repository: the files that are in the trash can
ENTRY = 'retiredContent'  # attribute of a deleted file
FILES = '_MaterialLocalRepository__files'
EVENT = re.compile(r'C(.+)$')

# Where an entry is: the name of its repository and the file's id in it.
Place = namedtuple('Place', 'repository id')
# What an entry of a file in the database holds.
# path: in the archive, as when it was a file there. size: bytes. sha256: hex.
# created: seconds since 1970.
Content = namedtuple('Content', 'path blob size sha256 created')


class NoIndico(Exception):
    """The database holds no Indico."""


class Deleted(object):
    """The entries of deleted files, like a repository: the id is that of the object, in hex.

    Args:
        trash: Indico's trash can.
    """

    def __init__(self, trash):
        self._trash = trash

    def items(self):
        """Yield (id, value); only objects of deleted files are loaded."""
        for oid, each in self._trash.items():
            if type(each).__name__ == 'LocalFile':
                value = getattr(each, ENTRY, None)
                if value is not None:
                    yield oid.encode('hex'), value

    def get(self, key, default=None):
        return getattr(self._trash.get(key.decode('hex')), ENTRY, default)

    def __setitem__(self, key, value):
        setattr(self._trash[key.decode('hex')], ENTRY, value)


def repositories(root):
    """Return {name: files} of the repositories of a database; raise NoIndico."""
    if 'rootCategory' not in root:
        raise NoIndico('the database holds no Indico')
    found = dict((name, getattr(each, FILES))
                 for name, each in root.get('local_repositories', {}).items())
    found[DELETED] = Deleted(root.get('trashcan', {}))
    return found


def is_archived(value):
    """Return True if an entry's value says that the file is in the archive."""
    return isinstance(value, str)


def path_of(value):
    """Return the path of a file in the archive, from its entry's value."""
    return value if is_archived(value) else value[0]


def find(folder, path):
    """Return the path of an archived file as Indico finds it; None if it is missing.

    Earlier releases wrote names in Latin 1.
    """
    wanted = os.path.join(folder, path)
    text = wanted.decode('utf-8', 'replace')
    for each in (wanted, text.encode('iso-8859-1', 'replace'),
                 text.encode(sys.getfilesystemencoding() or 'ascii', 'replace')):
        if os.path.isfile(each):
            return each
    return None


def is_inside(path):
    """Return True if a path of an entry stays inside of the archive."""
    return not os.path.isabs(path) and os.path.normpath(path).split(os.sep)[0] != os.pardir


def described(place, value):
    """Return what people are told of an entry: the owner in words, the file's name, its path."""
    path = path_of(value)
    return {'repository': place.repository, 'id': place.id, 'owner': owner_of(path),
            'name': _text(os.path.basename(path)), 'path': _text(path)}


def owner_of(path):
    """Return the event or category of a file, by its path: ARCHIVE/YEAR/C12/..., for example."""
    parts = path.split(os.sep)
    for part, following in zip(parts, parts[1:]):
        if part == 'categories':
            return 'category %s' % _text(following)
        if part == 'offline':
            return 'offline site of event %s' % _text(following)
        if part.isdigit() and EVENT.match(following):
            return 'event %s' % _text(following[1:])
    return ''


def _text(data):
    return data.decode('utf-8', 'replace')
