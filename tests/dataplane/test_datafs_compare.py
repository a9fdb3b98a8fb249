"""Whether one data file's history is the other one's, in every way in which it may not be."""
import os
import signal
import subprocess
import sys

import pytest
from ZODB.Connection import TransactionMetaData
from ZODB.utils import p64, z64

from data_files import Site
from indico_zodbrepl.dataplane.datafs import __main__ as program
from indico_zodbrepl.dataplane.datafs import compare as module
from indico_zodbrepl.dataplane.datafs.copying import copy
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Damaged, Missing
from indico_zodbrepl.dataplane.datafs.packs import packed_until
from indico_zodbrepl.dataplane.datafs.records import digest
from nodes import Node, write_everything
from remote_files import compare

WRITES = u"""
import sys
sys.path.insert(0, %r)
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.utils import p64, z64
storage = FileStorage(sys.argv[1])
size = int(sys.argv[2])
number = 100
while True:
    number += 1
    meta = TransactionMetaData(u'', u'', {})
    storage.tpc_begin(meta)
    storage.store(p64(number), z64, size * b'x', '', meta)
    storage.tpc_vote(meta)
    if sys.argv[3] == 'vote':
        print('voted')
        sys.stdout.flush()
        sys.stdin.read()
    storage.tpc_finish(meta)
    if number == 101:
        print('wrote')
        sys.stdout.flush()
""" % os.path.dirname(__file__)


@pytest.fixture
def upstream(tmpdir):
    site = Site(tmpdir.join('upstream.fs'))
    site.commit(u'a', u'b', u'c')
    return site


@pytest.fixture
def site(upstream, tmpdir):
    """A replica of the upstream."""
    return upstream.copy_to(tmpdir.join('site.fs'))


@pytest.fixture
def writer(request):
    """Starts processes that write to a file until the test ends."""
    def start(path, size=1000, stop=''):
        process = subprocess.Popen([sys.executable, '-c', WRITES, path, str(size), stop],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        request.addfinalizer(lambda: end(process))
        assert process.stdout.readline().strip() in ('voted', 'wrote')
        return process
    return start


def end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()


def relation(site, upstream, verified=None):
    return compare(site.path, upstream.path, verified)['relation']


def numbers(site, upstream, verified=None):
    found = compare(site.path, upstream.path, verified)
    return [found[key] for key in ('private', 'missing', 'holes', 'conflicting')]


def common(site, upstream, verified=None):
    found = compare(site.path, upstream.path, verified)['common']
    return found and found['tid'].decode('hex')


def test_identical_files_are_equal_without_reading_transactions_one_by_one(site, upstream):
    found = compare(site.path, upstream.path)

    assert ('equal', 0) == (found['relation'], found['examined'])
    assert site.tids()[-1] == found['common']['tid'].decode('hex')


def test_a_file_that_lacks_the_end_is_behind(site, upstream):
    upstream.commit(u'd', u'a')

    assert 'behind' == relation(site, upstream)
    assert [0, 2, 0, 0] == numbers(site, upstream)
    assert site.tids()[-1] == common(site, upstream)


def test_a_file_that_has_more_is_ahead_and_says_what(site, upstream):
    first, last = site.commit(u'd', u'a')
    found = compare(site.path, upstream.path)

    assert ('ahead', 2) == (found['relation'], found['private'])
    assert (first.encode('hex'), last.encode('hex')) == (
        found['private_first'], found['private_last'])
    assert os.path.getsize(site.path) - os.path.getsize(upstream.path) == found['bytes_private']


@pytest.mark.parametrize('verified', [None, 1, -1])
def test_files_that_both_went_on_have_diverged(site, upstream, verified):
    tid = verified and site.tids()[verified]
    last = site.tids()[-1]
    site.commit(u'mine')
    upstream.commit(u'theirs', u'a')

    assert 'diverged' == relation(site, upstream, tid)
    assert [1, 2, 0, 0] == numbers(site, upstream, tid)
    assert last == common(site, upstream, tid)


def test_a_private_transaction_followed_by_common_ones_is_found(site, upstream):
    """What zc.zrs accepts: the same last transaction, and one that only one side has."""
    last = site.tids()[-1]
    site.commit(u'private')
    upstream.commit(u'd', u'e')
    site.fetch(upstream)

    assert site.tids()[-1] == upstream.tids()[-1]
    assert 'diverged' == relation(site, upstream)
    assert [1, 0, 0, 0] == numbers(site, upstream)
    assert [0, 1, 1, 0] == numbers(upstream, site)
    assert 'diverged' == relation(upstream, site)
    assert last == common(site, upstream) == common(upstream, site)


def test_the_same_tid_with_different_content_conflicts(site, upstream, tmpdir):
    last = site.tids()[-1]
    upstream.commit(u'd', text=u'first')
    other = Site(tmpdir.join('other.fs'))
    with open(upstream.path, 'rb') as original:
        other_bytes = original.read().replace(b'first', b'other')
    with open(other.path, 'wb') as changed:
        changed.write(other_bytes)

    assert [0, 0, 0, 1] == numbers(other, upstream)
    assert 'diverged' == relation(other, upstream)
    assert last == common(other, upstream) == common(other, upstream, last)


def test_files_with_nothing_in_common_are_unrelated(site, tmpdir):
    stranger = Site(tmpdir.join('stranger.fs'))
    stranger.commit(u'x', u'y')

    assert 'unrelated' == relation(site, stranger)
    assert common(site, stranger) is None
    stranger.pack(stranger.tids()[-1])
    assert 'unrelated' == relation(site, stranger)


@pytest.mark.parametrize('content', [None, b'', b'FS', b'FS21'])
def test_a_missing_and_an_empty_file_are_empty(upstream, tmpdir, content):
    path = tmpdir.join('new.fs')
    if content is not None:
        path.write(content, 'wb')
    found = compare(str(path), upstream.path)

    assert ('empty', len(upstream.tids()), None) == (
        found['relation'], found['missing'], found['common'])


def test_a_file_is_ahead_of_an_empty_upstream(site, tmpdir):
    empty = tmpdir.join('empty.fs')
    empty.write(b'FS21', 'wb')

    assert 'ahead' == compare(site.path, str(empty))['relation']


def test_without_its_upstreams_file_there_is_no_answer(site, tmpdir):
    with pytest.raises(Missing):
        compare(site.path, str(tmpdir.join('none.fs')))


def test_the_cost_of_a_comparison_from_a_verified_transaction_on_is_that_of_what_follows(
        site, upstream):
    verified = upstream.commit(*[u'x'] * 50)[-1]
    site.fetch(upstream)
    site.commit(u'mine')
    upstream.commit(u'theirs')

    assert 2 == compare(site.path, upstream.path, verified)['examined']


def test_undone_transactions_are_the_same_wherever_their_records_are(site, upstream):
    """The private transaction moves the records that the undo points back to."""
    site.commit(u'private')
    tid, = upstream.commit(u'd')
    upstream.undo(upstream.undo(tid))
    upstream.undo(upstream.commit(u'a')[0])
    site.fetch(upstream)

    assert [1, 0, 0, 0] == numbers(site, upstream)
    with DataFile(site.path) as mine, DataFile(upstream.path) as theirs:
        assert ([digest(mine, each) for each in mine.backward()][:4]
                == [digest(theirs, each) for each in theirs.backward()][:4])


def grown(site):
    """Gives the site a history of which packs remove something; returns its tids."""
    site.commit(u'a', u'b', u'gone', u'a')
    site.remove(u'gone')
    undone, = site.commit(u'b')
    site.undo(undone)
    site.commit(u'a', u'd', u'b')
    return site.tids()


@pytest.mark.parametrize('noted', [False, True])
@pytest.mark.parametrize('mine', [None, 4, -1])
@pytest.mark.parametrize('theirs', [None, -4, -1])
def test_packs_are_no_divergence(upstream, tmpdir, mine, theirs, noted):
    """Neither of one side, nor of both at different times; more follows afterwards."""
    tids = grown(upstream)
    site = upstream.copy_to(tmpdir.join('site.fs'))
    if mine is not None:
        site.pack(tids[mine], noted)
    if theirs is not None:
        upstream.pack(tids[theirs], noted)

    assert 'equal' == relation(site, upstream)
    upstream.commit(u'later', u'a')
    assert 'behind' == relation(site, upstream)
    assert 'behind' == relation(site, upstream, tids[-2])
    assert tids[-1] == common(site, upstream)
    site.fetch(upstream)
    assert 'equal' == relation(site, upstream)


@pytest.mark.parametrize('packed', ['site', 'upstream', 'both'])
def test_divergence_is_found_beside_packs(upstream, tmpdir, packed):
    tids = grown(upstream)
    site = upstream.copy_to(tmpdir.join('site.fs'))
    if packed != 'site':
        upstream.pack(tids[-3])
    if packed != 'upstream':
        site.pack(tids[4])
    site.commit(u'private')
    upstream.commit(u'theirs')

    assert [1, 1, 0, 0] == numbers(site, upstream)
    assert 'diverged' == relation(site, upstream)
    site.fetch(upstream)
    assert 'diverged' == relation(site, upstream)
    assert 'diverged' == relation(upstream, site)


def test_a_private_transaction_is_not_hidden_by_a_later_pack_of_the_upstream(
        site, upstream):
    """Its record is still the object's newest, so no pack has removed it there."""
    last = site.tids()[-1]
    site.commit(u'a', text=u'private')
    upstream.commit(u'b', u'd')
    upstream.pack(upstream.tids()[-1])
    upstream.commit(u'e')
    found = compare(site.path, upstream.path)

    assert ('diverged', 1) == (found['relation'], found['private'])
    assert found['common']['tid'].decode('hex') <= last


def test_what_a_pack_may_have_removed_is_reported_with_the_last_tid(site, upstream):
    private, = site.commit(u'a', text=u'private')
    upstream.commit(u'a', u'b', u'c')
    upstream.pack(upstream.tids()[-1])
    found = compare(site.path, upstream.path)

    assert private.encode('hex') == found['packed_away_last']


def parted_after_a_pack(site, upstream, noted):
    """Both are packed up to their end, each goes on alone; returns the site's own tids."""
    for each in (site, upstream):
        each.pack(each.tids()[-1], noted)
    own = site.commit(u'a', u'b', text=u'private')
    upstream.commit(u'a', u'b')
    return own


@pytest.mark.parametrize('fork', [False, True])
def test_what_is_newer_than_the_pack_is_not_packed_away(site, upstream, fork):
    """The time of the pack says so, or the last transaction that the upstream got."""
    last = site.tids()[-1]
    own = parted_after_a_pack(site, upstream, noted=not fork)
    found = compare(site.path, upstream.path, fork=last if fork else None)

    assert ('diverged', 2, 2) == (found['relation'], found['private'], found['missing'])
    assert [tid.encode('hex') for tid in own] == [found['private_first'], found['private_last']]
    assert last.encode('hex') == found['common']['tid']
    assert 0 == found['packed_away']


def test_where_the_time_of_a_pack_is_unknown_is_told_what_may_have_been_packed_away(
        site, upstream):
    last = site.tids()[-1]
    own = parted_after_a_pack(site, upstream, noted=False)
    found = compare(site.path, upstream.path)

    assert ('behind', 2) == (found['relation'], found['packed_away'])
    assert [last.encode('hex'), own[-1].encode('hex')] == [
        found['packed_away_after'], found['packed_away_last']]


def test_what_follows_the_last_transaction_that_a_pack_has_left_is_packed_away(site, upstream):
    """It made and removed objects that nothing refers to any more."""
    upstream.commit(u'gone')
    upstream.remove(u'gone')
    site.fetch(upstream)
    upstream.pack(upstream.tids()[-1], noted=True)
    assert 'equal' == relation(site, upstream)
    upstream.commit(u'later')

    assert 'behind' == relation(site, upstream)


@pytest.mark.parametrize('later', ['a pack', 'another file', 'damage'])
def test_the_time_of_another_pack_is_not_believed(site, upstream, later):
    tids = grown(upstream)
    site = upstream.copy_to(site.path)
    upstream.pack(tids[3], noted=True)
    if later == 'a pack':
        upstream.pack(tids[-1])
    elif later == 'another file':
        copied = site.copy_to(site.path + '.copy')
        copied.pack(tids[-1])
        os.rename(copied.path, upstream.path)
    else:
        upstream.pack(tids[-1], noted=True)
        with open(upstream.path + '.packed', 'r+b') as note:
            note.truncate(20)
    with DataFile(upstream.path) as data_file:
        assert packed_until(data_file) is None
    upstream.commit(u'later')

    assert 'behind' == relation(site, upstream)


def test_an_unfinished_transaction_at_the_end_is_left_out(site, upstream):
    storage = site.open()
    meta = TransactionMetaData(u'', u'', {})
    storage.tpc_begin(meta)
    storage.store(p64(77), z64, b'x' * 1000, '', meta)
    storage.tpc_vote(meta)

    assert 'equal' == relation(site, upstream)
    storage.tpc_finish(meta)
    storage.close()
    assert 'ahead' == relation(site, upstream)


@pytest.mark.parametrize('kept', [1, 16, 17, 23, 900])
def test_a_server_killed_while_it_wrote_leaves_an_end_that_counts(
        site, upstream, writer, kept):
    size = os.path.getsize(site.path)
    end(writer(site.path, stop='vote'))
    assert size + 1000 < os.path.getsize(site.path)
    with open(site.path, 'r+b') as data_file:
        data_file.truncate(size + kept)

    with DataFile(site.path) as data_file:
        assert (size, size + kept) == (data_file.end, data_file.size)
    assert 'equal' == relation(site, upstream)


def test_the_index_of_another_file_does_not_mislead(site, upstream, writer):
    upstream.commit(u'd', u'e')
    upstream.open().close()
    size = os.path.getsize(site.path)
    end(writer(site.path, size=9000, stop='vote'))
    with open(site.path, 'r+b') as data_file:
        data_file.truncate(size + 5000)
    os.rename(upstream.path + '.index', site.path + '.index')

    with DataFile(site.path) as data_file:
        assert size == data_file.end
    assert 'behind' == relation(site, upstream)


def test_a_pack_that_was_interrupted_between_its_renames_is_not_taken_for_an_empty_file(
        site, upstream):
    os.rename(site.path, site.path + '.old')
    open(site.path + '.pack', 'wb').close()

    with pytest.raises(Damaged) as caught:
        relation(site, upstream)
    assert 'a pack was interrupted' in str(caught.value)


def test_a_file_that_was_cut_off_within_a_complete_transaction_is_damaged(site, upstream):
    whole, cut = [tid.encode('hex') for tid in site.tids()[-2:]]
    with open(site.path, 'r+b') as data_file:
        data_file.truncate(os.path.getsize(site.path) - 20)

    with pytest.raises(Damaged) as caught:
        relation(site, upstream)
    assert 'cut off within transaction %s; the last whole one is %s' % (
        cut, whole) in str(caught.value)


@pytest.mark.parametrize('garbage', [b'\0' * 4096, b'garbage, and more than a header of it'])
def test_a_file_that_ends_in_garbage_is_damaged(site, upstream, garbage):
    size = os.path.getsize(site.path)
    with open(site.path, 'ab') as data_file:
        data_file.write(garbage)

    with pytest.raises(Damaged) as caught:
        relation(site, upstream)
    assert size == caught.value.position


def test_damage_in_the_middle_is_reported_with_its_place(site, upstream):
    with DataFile(site.path) as data_file:
        place = list(data_file.forward())[2].position
    with open(site.path, 'r+b') as data_file:
        data_file.seek(place + 8)
        data_file.write(b'\xff' * 8)

    with pytest.raises(Damaged) as caught:
        relation(site, upstream)
    assert place == caught.value.position


def test_a_file_that_is_no_data_fs_is_damaged(upstream, tmpdir):
    other = tmpdir.join('other.fs')
    other.write('something else')

    with pytest.raises(Damaged):
        compare(str(other), upstream.path)


def test_a_file_can_be_read_all_the_time_while_a_process_writes_it(site, upstream, writer):
    writer(site.path, size=200000)
    last = b''
    for _ in range(100):
        with DataFile(site.path) as data_file:
            tid = data_file.last().tid
            assert data_file.end <= data_file.size
        assert last <= tid
        last = tid
    assert upstream.tids()[-1] < last
    assert 'ahead' == module.compare(site.path, upstream.path)['relation']


def test_a_pack_that_replaces_the_file_meanwhile_is_noticed(site, upstream, monkeypatch):
    tids = grown(upstream)
    site.fetch(upstream)
    whole, attempts = module._compare, []

    def packed_meanwhile(*arguments):
        result = whole(*arguments)
        if not attempts:
            upstream.pack(tids[-2])
            site.commit(u'hot')
        attempts.append(result['relation'])
        return result

    monkeypatch.setattr(module, '_compare', packed_meanwhile)
    assert 'ahead' == module.compare(site.path, upstream.path)['relation']
    assert ['equal', 'ahead'] == attempts


def test_files_of_running_servers_can_be_compared_and_copied(processes, tmpdir):
    """With everything that a database may hold, through zc.zrs; the secondary is cut off."""
    primary = Node(processes, tmpdir, 'primary', listens=True)
    secondary = Node(processes, tmpdir, 'secondary', upstream=primary)
    primary.start()
    secondary.start()
    primary.wait_for_followers()
    last = write_everything(primary)
    secondary.wait_for_tid(last)
    assert 'equal' == compare(secondary.data, primary.data)['relation']

    secondary.process.terminate()
    write_everything(primary, u'second')
    assert 'behind' == compare(secondary.data, primary.data)['relation']
    copied = tmpdir.mkdir('copied').join('Data.fs')
    copy(primary.data, str(copied), lambda progress: None)
    primary.process.terminate()
    assert primary.bytes() == copied.read('rb')
    assert primary.blob_files() == {
        path.relto(copied.dirpath('blobs')): path.read('rb')
        for path in copied.dirpath('blobs').visit('*.blob')}


def run(capsys, *arguments):
    code = program.main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_program_tells_the_last_transaction_and_its_digest(site, capsys):
    code, out, _ = run(capsys, 'last', site.path)
    found = program.json.loads(out)
    assert (0, site.tids()[-1].encode('hex')) == (code, found['tid'])
    assert os.path.getsize(site.path) == found['end'] == found['size']

    code, out, _ = run(capsys, 'digest', site.path, found['tid'])
    assert (0, program.compare(site.path, site.path)['common']) == (
        code, program.json.loads(out))


def test_the_program_says_in_one_line_what_is_wrong(site, tmpdir, capsys):
    garbage = tmpdir.join('garbage')
    garbage.write('garbage')
    answers = [run(capsys, 'last', str(tmpdir.join('none'))), run(capsys, 'last', str(garbage)),
               run(capsys, 'digest', site.path, '00' * 8)]

    assert [3, 4, 6] == [code for code, _, _ in answers]
    assert all(1 == len(err.splitlines()) and not out for _, out, err in answers)
