"""A transaction is looked up in a data file without reading all of it again and again."""
import os

import pytest
from ZODB.utils import p64, u64, z64

from data_files import Site
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Damaged
from indico_zodbrepl.dataplane.datafs.membership import Landmarks, look_up

MANY = 1000


@pytest.fixture(scope='module')
def grown(tmpdir_factory):
    """A data file with many transactions, and their tids; tests do not change it."""
    site = Site(tmpdir_factory.mktemp('grown').join('Data.fs'))
    site.commit(*map(unicode, range(MANY)))
    with DataFile(site.path) as data_file:
        return site.path, [each.tid for each in data_file.forward()]


@pytest.fixture
def read(monkeypatch):
    """The transactions that are read, by position."""
    found, at = [], DataFile.at

    def noted(self, position):
        found.append(position)
        return at(self, position)
    monkeypatch.setattr(DataFile, 'at', noted)
    return found


@pytest.mark.parametrize('landmarks', [None, Landmarks()])
def test_each_transaction_of_a_file_is_known_and_nothing_between_them(grown, landmarks):
    path, tids = grown
    for tid in tids[::37] + tids[-3:]:
        known, digest = look_up(path, tid, True, landmarks)
        assert (True, 64) == (known, len(digest))
        assert (False, None) == look_up(path, p64(u64(tid) + 1), True, landmarks)
        assert (False, None) == look_up(path, p64(u64(tid) - 1), True, landmarks)


def test_the_first_and_the_last_transactions_are_found_at_once(grown, read):
    path, tids = grown
    for tid in tids[:20] + tids[-20:]:
        del read[:]
        assert look_up(path, tid)[0]
        assert len(read) < 120


def test_a_follower_that_catches_up_is_looked_up_from_where_it_was(grown, read):
    path, tids = grown
    landmarks = Landmarks()
    for tid in tids[10:-10:20]:
        del read[:]
        assert look_up(path, tid, True, landmarks)[0]
        assert len(read) < 120


def test_a_landmark_of_another_file_is_not_used(grown, tmpdir):
    path, tids = grown
    landmarks = Landmarks()
    look_up(path, tids[MANY // 2], False, landmarks)
    other = Site(tmpdir.join('Data.fs'))
    [tid] = other.commit(u'a')
    assert (True, None) == look_up(other.path, tid, False, landmarks)
    assert (False, None) == look_up(other.path, tids[MANY // 2], False, landmarks)


def test_a_landmark_that_was_cut_off_is_not_used(tmpdir):
    site = Site(tmpdir.join('Data.fs'))
    first, second, third, fourth = site.commit(u'a', u'b', u'c', u'd')
    landmarks = Landmarks()
    assert (True, None) == look_up(site.path, third, False, landmarks)
    with DataFile(site.path) as data_file:
        end = data_file.find(second).end
    with open(site.path, 'r+b') as cut:
        cut.truncate(end)
    os.unlink(site.path + '.index')
    assert (False, None) == look_up(site.path, third, False, landmarks)
    [other] = site.commit(u'another, which is longer')
    assert (True, None) == look_up(site.path, other, False, landmarks)
    assert (False, None) == look_up(site.path, third, False, landmarks)


def test_damage_far_back_does_not_keep_later_transactions_from_being_found(grown, tmpdir):
    path, tids = grown
    copied = tmpdir.join('Data.fs')
    copied.write(open(path, 'rb').read(), 'wb')
    with DataFile(path) as data_file:
        early = data_file.find(tids[30]).position
    with open(str(copied), 'r+b') as damaged:
        damaged.seek(early)
        damaged.write(64 * b'x')
    assert (True, None) == look_up(str(copied), tids[200])
    with pytest.raises(Damaged):
        look_up(str(copied), tids[29])


def test_an_empty_file_holds_only_the_beginning(tmpdir):
    site = Site(tmpdir.join('Data.fs'))
    site.open().close()
    assert (True, None) == look_up(site.path, z64)
    assert (False, None) == look_up(site.path, p64(1), True, Landmarks())
