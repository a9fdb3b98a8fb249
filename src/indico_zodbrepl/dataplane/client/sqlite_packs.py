"""Client-side repair of RelStorage on SQLite: a pack lets others commit now and then.

SQLite has one writer at a time.  RelStorage's pack writes its tables with statements that copy the
ids of all objects, so the others wait for as long as one takes: 22 s with four million objects,
which is longer than a commit waits.  Such a statement runs in parts here.  After some time of work
the pack also leaves the database alone for longer than SQLite's busy handler sleeps between two
attempts of a writer that waits, https://www.sqlite.org/c3ref/busy_timeout.html.
"""
from __future__ import absolute_import

import re
import time

from relstorage.adapters.sqlite.scriptrunner import Sqlite3ScriptRunner

from indico_zodbrepl.dataplane.programs.clock import monotonic

PART = 20000  # ids of objects
WORK = 0.2  # seconds without a gap
GAP = 0.12  # seconds; the busy handler sleeps for 0.1 at most

# Nobody changes the rows that these read: transactions up to that of the pack.
_LONG = re.compile(r'\s*INSERT INTO pack_(?:object|state) .*\bFROM object_state\b.*'
                   r'\bWHERE\b.*\btid <= %\(pack_tid\)s', re.DOTALL)
_WHERE = 'WHERE zoid >= %(from_zoid)s AND zoid < %(to_zoid)s AND '


def let_others_commit(adapter):
    """Make the packs of a storage pause, and run their long statements in parts.

    Args:
        adapter: a `relstorage.adapters.sqlite.adapter.Sqlite3Adapter`.
    """
    undo, gaps = adapter.packundo, _Gaps()
    undo.options.pack_batch_timeout = WORK  # the longest time of work without a commit
    undo.runner = _InParts(gaps)
    undo.connmanager = _Pausing(undo.connmanager, gaps)


class _Gaps(object):
    """Sleeps if there was no gap for some time; for one thread."""

    def __init__(self):
        self._since = monotonic()

    def pause(self):
        if monotonic() - self._since >= WORK:
            time.sleep(GAP)
            self._since = monotonic()


class _InParts(Sqlite3ScriptRunner):
    """Runs a long statement of a pack for a range of objects after the other."""

    def __init__(self, gaps):
        self._gaps = gaps

    def new_instance(self):
        return type(self)(self._gaps)

    def run_script_stmt(self, cursor, generic_stmt, generic_params=()):
        """Run a statement; see `relstorage.adapters.scriptrunner.ScriptRunner`."""
        run = super(_InParts, self).run_script_stmt
        commits_itself = cursor.connection.isolation_level is None
        if not (commits_itself and _LONG.match(generic_stmt)):
            run(cursor, generic_stmt, generic_params)
            return
        cursor.execute('SELECT MAX(zoid) FROM object_state')
        last, = cursor.fetchone()
        part = generic_stmt.replace('WHERE ', _WHERE, 1)
        for begin in range(0, (last or 0) + 1, PART):
            run(cursor, part, dict(generic_params, from_zoid=begin, to_zoid=begin + PART))
            self._gaps.pause()


class _Pausing(object):
    """The connections of a pack, which pauses after commits.

    Args:
        connections: a `relstorage.adapters.sqlite.connmanager.Sqlite3ConnectionManager`.
    """

    def __init__(self, connections, gaps):
        self._connections = connections
        self._gaps = gaps

    def __getattr__(self, name):
        return getattr(self._connections, name)

    def commit(self, *args, **kwargs):
        """Commit as the connection manager does, then pause."""
        self._connections.commit(*args, **kwargs)
        self._gaps.pause()
