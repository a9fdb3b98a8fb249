"""The parts that benchmark programs without Indico share."""
import json
import os
import sys

import pkg_resources
import ZODB.config
from ZODB.DB import DB

PACKAGES = ('ZODB', 'ZEO', 'BTrees', 'persistent', 'zc.zrs', 'RelStorage', 'neoppod')


class Caller(object):
    """The program that started this one; only its answers go to standard output.

    From now on, output of libraries goes to standard error.
    """

    def __init__(self):
        self._output = os.dup(1)
        os.dup2(2, 1)

    def wait(self):
        """Say "ready" and wait for a line, so that several processes start at the same time."""
        self._tell('ready')
        sys.stdin.readline()

    def answer(self, found):
        """Print a dict as the last line."""
        self._tell(json.dumps(dict(found, versions=versions())))

    def _tell(self, line):
        with os.fdopen(os.dup(self._output), 'w') as output:
            output.write(line + '\n')


def opened(path, objects):
    """Return a DB of a storage as Indico opens it.

    Args:
        path: of a configuration of a storage, or of a database.
        objects: size of a connection's cache.

    Raises ClientDisconnected if no server answers.
    """
    with open(path) as source:
        if '<zodb' not in source.read():
            return DB(ZODB.config.storageFromURL(path), cache_size=objects)
    db = ZODB.config.databaseFromURL(path)
    db.setCacheSize(objects)
    return db


def versions():
    """Return the versions of the packages that a benchmark depends on."""
    return dict((each.project_name, each.version) for each in pkg_resources.working_set
                if each.project_name in PACKAGES)
