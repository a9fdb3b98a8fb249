"""Backups of a Data.fs by repozo: whole, interruptible, and what a restored file lacks."""
import json
import os
import signal
import subprocess
import sys

import pytest
from ZODB.FileStorage import FileStorage
from ZODB.fsIndex import fsIndex
from ZODB.scripts import repozo

from data_files import Site
from indico_zodbrepl.dataplane.backup import pieces, progress, received, tail
from indico_zodbrepl.dataplane.backup.pieces import NoBackup, NotWhole
from indico_zodbrepl.dataplane.backup.repository import Repository
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Damaged, DataFileError, InUse


class Clock(object):
    """Each backup is a second later than the one before, without anybody waiting for it."""

    def __init__(self):
        self.now = 0

    def __call__(self, _options):
        return (2026, 1, 1, 0, self.now // 60, self.now % 60)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(repozo, 'gen_filedate', made)
    return made


@pytest.fixture
def site(tmpdir):
    made = Site(tmpdir.join('Data.fs'))
    made.commit(u'a', u'b')
    return made


class Kept(object):
    """A folder of backups."""

    def __init__(self, folder, clock):
        self.folder, self.clock = folder, clock
        self.said = []
        folder.mkdir()

    def _repository(self):
        return Repository(str(self.folder), self.said.append)

    def back_up(self, site, full=False):
        self.clock.now += 1
        one = self._repository()
        with one.alone():
            return one.back_up(site.path, full)

    def inspect(self, at=None):
        one = self._repository()
        with one.alone():
            return one.inspect(at)

    def recover(self, target, at=None):
        one = self._repository()
        with one.alone():
            return one.recover(str(target), at)

    def names(self):
        return sorted(each.basename for each in self.folder.listdir()
                      if each.basename != 'lock')


@pytest.fixture
def kept(tmpdir, clock, monkeypatch):
    monkeypatch.chdir(tmpdir)
    return Kept(tmpdir.join('the backups'), clock)


def test_what_is_recovered_is_the_file_that_was_backed_up(kept, site, tmpdir):
    first = kept.back_up(site)
    site.commit(u'c')
    second = kept.back_up(site)
    assert ['full', 'incremental'] == [first['kind'], second['kind']]
    done = kept.recover(tmpdir.join('again.fs'))
    assert tmpdir.join('again.fs').read('rb') == tmpdir.join('Data.fs').read('rb')
    assert site.tids()[-1].encode('hex') == done['tid'] == second['tid']
    assert len(site.tids()) == done['transactions']


@pytest.mark.parametrize('indexed', [True, False])
def test_an_index_comes_with_it_and_nothing_else(kept, site, tmpdir, indexed):
    """A backup of an earlier release, or of repozo, has an index of its own."""
    name = kept.back_up(site)['name']
    if indexed:
        kept.folder.join(name.replace('.fs', '.index')).write('no longer to be trusted')
    site.undo(site.commit(u'c', u'a')[-1])
    kept.back_up(site)
    kept.recover(tmpdir.mkdir('restored').join('again.fs'))
    assert ['again.fs', 'again.fs.index', 'blobs'] == sorted(
        each.basename for each in tmpdir.join('restored').listdir())
    whole = site.copy_to(tmpdir.join('whole.fs'))
    FileStorage(whole.path).close()
    ours, theirs = (fsIndex.load(str(tmpdir.join(name)) + '.index')
                    for name in ('restored/again.fs', 'whole.fs'))
    assert theirs['pos'] == ours['pos']
    assert dict(theirs['index'].items()) == dict(ours['index'].items())


def noted(read, positions):
    """A function that notes the positions at which another one reads."""
    def noting(self, position, *more):
        positions.append(position)
        return read(self, position, *more)
    return noting


def test_no_backup_reads_what_it_has_already(kept, site, tmpdir, monkeypatch):
    """A killed server leaves no index, and a large file takes minutes to read."""
    site.commit(*[u'%d' % number for number in range(100)])
    kept.back_up(site)
    had = tmpdir.join('Data.fs').size()
    site.commit(u'c')
    tmpdir.join('Data.fs.index').remove()
    read = []
    monkeypatch.setattr(DataFile, 'at', noted(DataFile.at, read))
    assert 'incremental' == kept.back_up(site)['kind']
    assert had > 20000
    assert read
    assert had <= min(read)


def test_each_backup_can_be_had_again_by_its_time(kept, site, tmpdir):
    tids = []
    for name in (u'c', u'd'):
        kept.back_up(site)
        tids.append(site.tids()[-1])
        site.commit(name)
    done = kept.recover(tmpdir.join('again.fs'), '2026-01-01-00-00-01')
    assert tids[0].encode('hex') == done['tid'] == kept.inspect('2026-01-01-00-00-01')['tid']
    assert tids[1].encode('hex') == kept.inspect()['tid']
    with pytest.raises(NoBackup):
        kept.inspect('2025-12-31-00-00-00')


def test_nothing_new_makes_no_backup(kept, site):
    kept.back_up(site)
    assert 'none' == kept.back_up(site)['kind']
    assert 1 == kept.inspect()['pieces']


def test_a_transaction_that_is_being_written_is_left_for_the_next_one(kept, site, tmpdir):
    kept.back_up(site)
    size = tmpdir.join('Data.fs').size()
    site.commit(u'c')
    whole = tmpdir.join('Data.fs').read('rb')
    tmpdir.join('Data.fs').write(whole[:size + 16] + b'c' + whole[size + 17:], 'wb')
    assert 'none' == kept.back_up(site)['kind']
    tmpdir.join('Data.fs').write(whole, 'wb')
    assert 'incremental' == kept.back_up(site)['kind']
    kept.recover(tmpdir.join('again.fs'))


def test_after_a_pack_the_next_one_is_full(kept, site, tmpdir):
    kept.back_up(site)
    tid = site.commit(u'a', u'a')[-1]
    site.pack(tid)
    assert 'full' == kept.back_up(site)['kind']
    kept.recover(tmpdir.join('again.fs'))
    assert site.tids() == Site(tmpdir.join('again.fs')).tids()


@pytest.mark.parametrize('left', ['a piece that no list names', 'a part of a piece',
                                  'half a line', 'a full piece without a list',
                                  'a part of another host'])
def test_what_an_interrupted_backup_left_does_no_harm(kept, site, tmpdir, left):
    kept.back_up(site)
    folder = kept.folder
    listed = folder.join('2026-01-01-00-00-01.dat')
    before = site.commit(u'c')
    if left == 'a part of a piece':
        folder.join('tmp.tmp').write('x')
    elif left == 'a part of another host':
        folder.join('received-4.part').write('x')
    elif left == 'a full piece without a list':
        folder.join('2026-01-01-00-00-02.fs').write('FS21x')
    else:
        folder.join('2026-01-01-00-00-02.deltafs').write('x')
        folder.join('2026-01-01-00-00-02.index').write('x')
        folder.join('2026-01-01-00-00-02.blobs').write('')
    if left == 'half a line':
        listed.write(listed.read() + './2026-01-01-00-00-02.deltafs 10 1')
    kept.clock.now += 1
    done = kept.back_up(site)
    assert 'incremental' == done['kind']
    assert [] == kept.inspect()['problems']
    assert before[0].encode('hex') == kept.recover(tmpdir.join('again.fs'))['tid']
    stem = '2026-01-01-00-00-03'
    full = '2026-01-01-00-00-01'
    assert [full + '.blobs', full + '.dat', full + '.fs',
            stem + '.blobs', stem + '.deltafs'] == kept.names()


def content(site):
    with open(site.path, 'rb') as opened:
        return opened.read()


def receive(kept, site, begin=0, end=None):
    """Add what another host would have sent of a data file."""
    kept.clock.now += 1
    part = kept.folder.join('received.part')
    part.write(content(site)[begin:end], 'wb')
    return received.add(str(kept.folder), str(part), begin, kept.said.append)


def test_received_parts_make_the_same_backup(kept, site, tmpdir):
    assert '' == received.newest(str(kept.folder))['name']
    first = receive(kept, site)
    site.undo(site.tids()[-1])
    site.commit(u'c')
    found = received.newest(str(kept.folder))
    assert (first['name'], 0, first['whole']) == (found['name'], found['begin'], found['end'])
    second = receive(kept, site, found['end'])
    assert ['full', 'incremental'] == [first['kind'], second['kind']]
    assert [] == kept.inspect()['problems']
    done = kept.recover(tmpdir.join('again.fs'))
    assert tmpdir.join('again.fs').read('rb') == content(site)
    assert site.tids()[-1].encode('hex') == done['tid'] == second['tid']
    assert 'none' == kept.back_up(site)['kind']


@pytest.mark.parametrize('harm', ['shorter', 'changed'])
def test_a_received_part_that_is_damaged_is_no_backup(kept, site, harm):
    receive(kept, site)
    begin = len(content(site))
    site.commit(u'c')
    if harm == 'changed':
        whole = content(site)
        with open(site.path, 'wb') as changed:
            changed.write(whole[:begin + 8] + b'x' * 8 + whole[begin + 16:])
    with pytest.raises(Damaged):
        receive(kept, site, begin, -3 if harm == 'shorter' else None)
    assert 1 == kept.inspect()['pieces']


@pytest.mark.parametrize('harm', ['shorter', 'changed'])
def test_a_damaged_backup_is_noticed(kept, site, tmpdir, harm):
    kept.back_up(site)
    site.commit(u'c')
    name = kept.back_up(site)['name']
    piece = kept.folder.join(name)
    data = piece.read('rb')
    piece.write(data[:-1] if harm == 'shorter' else b'x' + data[1:], 'wb')
    assert [name] == [each.split()[0] for each in kept.inspect()['problems']]
    with pytest.raises(NotWhole):
        kept.recover(tmpdir.join('again.fs'))
    assert not tmpdir.join('again.fs').check()


def test_a_missing_piece_in_the_middle_is_noticed(kept, site):
    kept.back_up(site)
    site.commit(u'c')
    name = kept.back_up(site)['name']
    site.commit(u'd')
    kept.back_up(site)
    kept.folder.join(name).remove()
    assert kept.inspect()['problems']


def test_after_a_piece_is_gone_the_next_backup_is_full(kept, site, tmpdir):
    kept.back_up(site)
    site.commit(u'c')
    kept.folder.join(kept.back_up(site)['name']).remove()
    site.commit(u'd')
    assert 'full' == kept.back_up(site)['kind']
    assert [] == kept.inspect()['problems']


@pytest.mark.parametrize('indexed', [True, False])
def test_a_damaged_file_is_not_backed_up(kept, site, tmpdir, indexed):
    kept.back_up(site)
    before = kept.names()
    size = tmpdir.join('Data.fs').size()
    site.commit(u'c', u'd')
    data = tmpdir.join('Data.fs').read('rb')
    tmpdir.join('Data.fs').write(data[:size + 8] + b'\xff' * 8 + data[size + 16:], 'wb')
    if not indexed:
        tmpdir.join('Data.fs.index').remove()
    with pytest.raises(Damaged):
        kept.back_up(site)
    assert before == kept.names()
    with pytest.raises(Damaged):
        kept.back_up(site, full=True)
    assert before == kept.names()


@pytest.mark.parametrize('at', [24, 34, 41])
def test_a_file_with_a_damaged_record_is_not_backed_up(kept, site, at):
    """At these offsets a record has its transaction's position, and its length."""
    begin = len(content(site))
    site.commit(u'c', u'd')
    with DataFile(site.path) as data_file:
        records = data_file.at(begin).records
    data = content(site)
    with open(site.path, 'wb') as changed:
        changed.write(data[:records + at] + b'\x01' + data[records + at + 1:])
    with pytest.raises(Damaged):
        kept.back_up(site)
    assert [] == kept.names()


def test_an_empty_file_is_not_backed_up(kept, tmpdir):
    empty = Site(tmpdir.join('Empty.fs'))
    FileStorage(empty.path).close()
    with pytest.raises(DataFileError):
        kept.back_up(empty)


def test_a_backup_of_the_future_is_reported(kept, site):
    kept.clock.now = 100
    kept.back_up(site)
    kept.clock.now = 10
    site.commit(u'c')
    with pytest.raises(DataFileError) as raised:
        kept.back_up(site)
    assert 'of the future' in str(raised.value)


def test_two_do_not_work_in_one_folder(kept, site):
    one, other = (Repository(str(kept.folder), kept.said.append) for _ in range(2))
    with one.alone():
        with pytest.raises(InUse):
            with other.alone():
                pass


def test_how_far_it_is_is_reported(kept, site, monkeypatch):
    monkeypatch.setattr(progress.Counted.add.__func__, '__defaults__', None)
    kept.back_up(site)
    assert {'verified'} == set(each['stage'] for each in kept.said)
    assert set(['stage', 'done', 'total']) == set(kept.said[0])


PROGRAM = [sys.executable, '-m', 'indico_zodbrepl.dataplane.backup']


def test_the_program_answers_as_json_and_its_files_are_for_their_owner(site, tmpdir):
    folder = tmpdir.mkdir('kept')
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    started = subprocess.Popen(PROGRAM + ['backup', site.path, str(folder)], **pipes)
    output = started.stdout.read()
    assert 0 == started.wait()
    assert 'full' == json.loads(output)['kind']
    assert [0] == sorted(set(each.stat().mode & 0o077 for each in folder.listdir()))
    started = subprocess.Popen(PROGRAM + ['inspect', str(tmpdir)], **pipes)
    assert 'has no backup' in started.stderr.read()
    assert 10 == started.wait()


# --- what a restored file lacks


def restored(kept, tmpdir):
    target = tmpdir.mkdir('restored').join('Data.fs')
    kept.recover(target)
    return str(target)


def exported(folder):
    return [each['tid'] for each in json.loads(folder.join('tail.json').read())['transactions']]


def test_what_came_after_the_backup_is_exported(kept, site, tmpdir):
    kept.back_up(site)
    tids = site.commit(u'c', u'a')
    told = tail.export_tail(site.path, restored(kept, tmpdir), str(tmpdir.join('tail')))
    assert 2 == told['transactions']
    assert [tid.encode('hex') for tid in tids] == exported(tmpdir.join('tail'))


def test_without_anything_newer_nothing_is_exported(kept, site, tmpdir):
    kept.back_up(site)
    told = tail.export_tail(site.path, restored(kept, tmpdir), str(tmpdir.join('tail')))
    assert (0, None, '') == (told['transactions'], told['folder'], told['damage'])
    assert not tmpdir.join('tail').check()


def test_without_a_file_there_is_nothing_to_export(kept, site, tmpdir):
    kept.back_up(site)
    target = restored(kept, tmpdir)
    told = tail.export_tail(str(tmpdir.join('gone.fs')), target, str(tmpdir.join('tail')))
    assert 0 == told['transactions']
    assert 'no such file' in told['damage']


def test_another_database_is_exported_whole(kept, site, tmpdir):
    kept.back_up(site)
    other = Site(tmpdir.join('other.fs'))
    other.commit(u'x')
    told = tail.export_tail(other.path, restored(kept, tmpdir), str(tmpdir.join('tail')))
    assert [tid.encode('hex') for tid in other.tids()] == exported(tmpdir.join('tail'))
    assert len(other.tids()) == told['transactions']


def damage(site, tids, number):
    """Spoils the header of the transaction of that number; the index does not know it."""
    storage = FileStorage(site.path, read_only=True)
    position = [each for each in storage.iterator() if each.tid == tids[number]][0]._tpos
    storage.close()
    with open(site.path, 'r+b') as opened:
        opened.seek(position + 8)
        opened.write(b'\xff' * 8)


def test_of_a_damaged_file_what_can_be_read_is_exported(kept, site, tmpdir):
    kept.back_up(site)
    tids = site.commit(u'c', u'd', u'e', u'f')
    damage(site, tids, 1)
    told = tail.export_tail(site.path, restored(kept, tmpdir), str(tmpdir.join('tail')))
    assert [tids[index].encode('hex') for index in (0, 2, 3)] == exported(tmpdir.join('tail'))
    assert told['damage']
    assert told['unread'] > 0


@pytest.mark.parametrize('cut', [1, 8, 30])
def test_of_a_file_that_was_cut_what_can_be_read_is_exported(kept, site, tmpdir, cut):
    kept.back_up(site)
    tids = site.commit(u'c', u'd')
    with open(site.path, 'r+b') as opened:
        opened.truncate(os.path.getsize(site.path) - cut)
    told = tail.export_tail(site.path, restored(kept, tmpdir), str(tmpdir.join('tail')))
    assert [tids[0].encode('hex')] == exported(tmpdir.join('tail'))
    assert told['damage']


def test_of_what_is_no_data_file_nothing_is_exported(kept, site, tmpdir):
    kept.back_up(site)
    noise = tmpdir.join('noise.fs')
    noise.write('nothing of the kind. ' * 100)
    told = tail.export_tail(str(noise), restored(kept, tmpdir), str(tmpdir.join('tail')))
    assert (0, noise.size()) == (told['transactions'], told['unread'])


def test_what_is_newer_is_counted_with_who_did_it(site):
    after = site.tids()[-1]
    site.commit(u'c', u'd')
    told = tail.newer(site.path, after)
    assert (2, '') == (told['transactions'], told['damage'])
    assert ['someone changed c', 'someone changed d'] == [
        each.partition('  ')[2] for each in told['told']]
    assert site.tids()[-1].encode('hex') == told['last']


def test_what_is_newer_is_counted_up_to_the_damage(site):
    after = site.tids()[-1]
    tids = site.commit(u'c', u'd', u'e')
    damage(site, tids, 1)
    told = tail.newer(site.path, after)
    assert 1 == told['transactions']
    assert told['unseen'] > 0
    assert 'offset' in told['damage']


def test_a_search_for_the_next_transaction_ends(tmpdir):
    for text in ('.', '....... ', 'x' * 70000 + '.', ''):
        path = tmpdir.join('text')
        path.write(text)
        with open(str(path), 'rb') as opened:
            assert 0 == tail.scan(opened, 0)


def test_an_interrupted_program_can_be_run_again(site, tmpdir):
    site.commit(*[u'large%d' % number for number in range(30)], text=300000 * u'x')
    folder = tmpdir.mkdir('kept')
    for _ in range(3):
        started = subprocess.Popen(PROGRAM + ['backup', site.path, str(folder)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        started.stderr.readline()  # it has begun
        started.send_signal(signal.SIGKILL)
        started.wait()
    started = subprocess.Popen(PROGRAM + ['backup', site.path, str(folder)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    json.loads(started.stdout.read())
    assert 0 == started.wait()
    assert [] == pieces.settle(str(folder))
