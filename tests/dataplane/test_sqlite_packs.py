"""A pack of RelStorage on SQLite lets others commit."""
import sqlite3
import time

import pytest
from persistent.mapping import PersistentMapping
from ZODB.DB import DB

from indico_zodbrepl.dataplane.client import sqlite_packs

from sqlite_storages import open_sqlite

OBJECTS = 100


@pytest.fixture
def db(tmpdir):
    """A database with objects, one of which was changed and one is garbage."""
    opened = DB(open_sqlite(tmpdir))
    with opened.transaction() as connection:
        for number in range(OBJECTS):
            connection.root()[number] = PersistentMapping(number=number)
    with opened.transaction() as connection:
        connection.root()[3]['number'] = -3
        del connection.root()[5]
    yield opened
    opened.close()


def states(folder):
    """Return the ids of all objects with those of their transactions."""
    with sqlite3.connect(str(folder.join('main.sqlite3'))) as connection:
        return sorted(connection.execute('SELECT zoid, tid FROM object_state'))


def test_others_commit_between_two_parts_of_a_pack(db, tmpdir, monkeypatch):
    other = DB(open_sqlite(tmpdir))
    numbers = []

    def commit_meanwhile(seconds):
        with other.transaction() as connection:
            connection.root()['meanwhile'] = len(numbers)
        numbers.append(seconds)
    monkeypatch.setattr(sqlite_packs, 'PART', 10)
    monkeypatch.setattr(sqlite_packs, 'WORK', 0)
    monkeypatch.setattr(sqlite_packs.time, 'sleep', commit_meanwhile)
    db.pack(time.time() + 1)
    monkeypatch.undo()
    # Three statements with ten parts each.
    assert len(numbers) >= 3 * OBJECTS / 10
    with db.transaction() as connection:
        root = connection.root()
        assert len(numbers) - 1 == root.pop('meanwhile')
        assert set(range(OBJECTS)) - set([5]) == set(root)
        assert all(root[number]['number'] == number for number in root if number != 3)
        assert -3 == root[3]['number']
    other.close()


def test_a_pack_in_parts_removes_what_a_whole_one_does(db, tmpdir, monkeypatch):
    before = states(tmpdir)
    copy = tmpdir.join('copy').ensure(dir=True)
    for path in tmpdir.listdir('*.sqlite3*'):
        path.copy(copy.join(path.basename))
    twin = DB(open_sqlite(copy))
    monkeypatch.setattr(sqlite_packs, 'PART', 7)
    db.pack()
    monkeypatch.setattr(sqlite_packs, 'PART', 1 << 60)
    twin.pack()
    twin.close()
    assert states(copy) == states(tmpdir)
    # Two older revisions of the root, one of what was changed, and the garbage.
    assert len(before) - 4 == len(states(tmpdir))
