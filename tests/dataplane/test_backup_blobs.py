"""Backups of the blobs of a Data.fs: complete, of one point in time, and each file kept once."""
import json
import os
import signal
import subprocess

import pytest

from blob_sites import BlobSite
from indico_zodbrepl.dataplane.backup import blobs, progress, received, repository, tail
from indico_zodbrepl.dataplane.backup.pieces import NotWhole
from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.blobs import Blobs
from indico_zodbrepl.dataplane.datafs.failures import NoSpace
from test_backup import PROGRAM, Kept, clock, receive  # noqa: F401 clock is a fixture


@pytest.fixture
def site(tmpdir):
    made = BlobSite(tmpdir.mkdir('node'))
    made.commit(u'a')
    made.upload(first=b'one', second=b'two')
    return made


@pytest.fixture
def kept(tmpdir, clock, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmpdir)
    return Kept(tmpdir.join('the backups'), clock)


def contents(folder):
    """Returns what each blob of a folder holds, by its path."""
    return dict((name, disk.blocks(os.path.join(folder, name)).next() if
                 os.path.getsize(os.path.join(folder, name)) else b'')
                for name in Blobs(folder).names())


def restored(kept, tmpdir, at=None, name='restored'):
    """Returns the result and the blobs of a restore."""
    folder = tmpdir.mkdir(name)
    return kept.recover(folder.join('Data.fs'), at), contents(str(folder.join('blobs')))


def stored(kept):
    return contents(str(kept.folder.join('blobs')))


def test_a_restore_has_the_blobs_of_the_database(kept, site, tmpdir):
    site.upload(third=b'')
    made = kept.back_up(site)
    assert (3, 6) == (made['blobs'], made['blob_bytes'])
    found = kept.inspect()
    assert ([], 3, 6) == (found['problems'], found['blobs'], found['blob_bytes'])
    done, got = restored(kept, tmpdir)
    assert contents(site.folder) == got
    assert (3, 6) == (done['blobs'], done['blob_bytes'])
    assert 'bushy' == tmpdir.join('restored', 'blobs', '.layout').read()
    assert 'two' == open(BlobSite(tmpdir.join('restored')).blob('second')).read()


def test_a_restore_without_blobs_tells_its_server_that_there_are_none(kept, tmpdir):
    """Without the file it would look for one in all of the data file before it starts."""
    site = BlobSite(tmpdir.mkdir('without'))
    site.commit(u'a')
    kept.back_up(site)
    assert {} == restored(kept, tmpdir)[1]
    assert ['.layout'] == os.listdir(str(tmpdir.join('restored', 'blobs')))


def test_a_backup_copies_only_blobs_that_the_folder_lacks(kept, site, monkeypatch):
    kept.back_up(site)
    site.upload(first=b'one again', third=b'three')
    copied, copy = [], blobs._copy

    def noted(source, path, count):
        copied.append(open(source).read())
        return copy(source, path, count)
    monkeypatch.setattr(blobs, '_copy', noted)
    made = kept.back_up(site)
    assert ('incremental', 2) == (made['kind'], made['blobs'])
    assert ['one again', 'three'] == sorted(copied)
    del copied[:]
    made = kept.back_up(site, full=True)
    assert ('full', 4) == (made['kind'], made['blobs'])
    assert [] == copied


def test_an_older_backup_has_exactly_the_blobs_of_its_time(kept, site, tmpdir):
    kept.back_up(site)
    then = contents(site.folder)
    site.upload(first=b'changed', third=b'three')
    kept.back_up(site)
    assert then == restored(kept, tmpdir, '2026-01-01-00-00-01', 'then')[1]
    assert contents(site.folder) == restored(kept, tmpdir, None, 'now')[1]


def test_after_a_pack_a_backup_has_the_blobs_that_are_left_and_older_ones_theirs(
        kept, site, tmpdir):
    kept.back_up(site)
    before = contents(site.folder)
    last = site.upload(first=b'changed')
    site.pack(last)
    assert before != contents(site.folder)
    assert 'full' == kept.back_up(site)['kind']
    assert contents(site.folder) == restored(kept, tmpdir, None, 'now')[1]
    assert before == restored(kept, tmpdir, '2026-01-01-00-00-01', 'then')[1]


def test_an_undone_upload_is_a_blob_of_its_own(kept, site, tmpdir):
    last = site.upload(first=b'by mistake')
    site.undo(last)
    kept.back_up(site)
    assert contents(site.folder) == restored(kept, tmpdir)[1]
    assert 2 == contents(site.folder).values().count(b'one')


@pytest.mark.parametrize('harm', ['missing', 'shorter', 'changed'])
def test_a_damaged_blob_of_a_backup_is_noticed(kept, site, tmpdir, harm):
    kept.back_up(site)
    path = kept.folder.join('blobs', os.path.relpath(site.blob('first'), site.folder))
    if harm == 'missing':
        path.remove()
    else:
        path.write('o' if harm == 'shorter' else 'One')
    problem, = kept.inspect()['problems']
    assert problem.startswith('blobs/0x00/')
    with pytest.raises(NotWhole):
        restored(kept, tmpdir)
    assert not tmpdir.join('restored', 'Data.fs').exists()


def test_a_full_backup_repairs_what_older_ones_have_lost(kept, site):
    kept.back_up(site)
    for name in ('first', 'second'):
        path = kept.folder.join('blobs', os.path.relpath(site.blob(name), site.folder))
        path.write('One') if name == 'first' else path.remove()
    kept.back_up(site, full=True)
    assert [] == kept.inspect()['problems']
    assert [] == kept.inspect('2026-01-01-00-00-01')['problems']


def test_a_list_without_some_of_its_blobs_is_noticed_by_a_restore(kept, site, tmpdir):
    kept.back_up(site)
    kept.folder.join('2026-01-01-00-00-01.blobs').write('')
    with pytest.raises(NotWhole):
        restored(kept, tmpdir)


def test_a_damaged_list_is_noticed(kept, site):
    kept.back_up(site)
    listed = kept.folder.join('2026-01-01-00-00-01.blobs')
    listed.write(listed.read()[:-80])
    assert ['2026-01-01-00-00-01.blobs is damaged'] == [
        each.partition(' (')[0] for each in kept.inspect()['problems']]


def test_data_that_lack_a_blob_are_not_backed_up(kept, site):
    os.unlink(site.blob('first'))
    with pytest.raises(blobs.BlobLost) as raised:
        kept.back_up(site)
    assert 'the file of a blob is missing' in str(raised.value)
    assert [] == [name for name in kept.names() if name != 'blobs']


def test_backups_of_releases_that_kept_no_blobs_are_continued_and_restored(kept, tmpdir):
    site = BlobSite(tmpdir.mkdir('node'))
    site.commit(u'a')
    kept.back_up(site)
    kept.folder.join('2026-01-01-00-00-01.blobs').remove()
    assert [] == kept.inspect()['problems']
    assert (0, {}) == (lambda done, got: (done['blobs'], got))(*restored(kept, tmpdir))
    site.upload(first=b'one')
    assert 1 == kept.back_up(site)['blobs']
    assert contents(site.folder) == restored(kept, tmpdir, None, 'now')[1]


def test_a_backup_that_repozo_made_of_blobs_is_not_restored_without_them(kept, site, tmpdir):
    kept.back_up(site)
    kept.folder.join('2026-01-01-00-00-01.blobs').remove()
    with pytest.raises(NotWhole):
        restored(kept, tmpdir)
    site.commit(u'b')
    kept.back_up(site)  # the next one lists them
    assert contents(site.folder) == restored(kept, tmpdir, None, 'now')[1]


def test_room_for_the_blobs_is_checked_before_they_are_copied(kept, site, monkeypatch):
    asked = []

    def full(size):
        asked.append(size)
        if len(asked) > 1:
            raise NoSpace('full')
    monkeypatch.setattr(repository, 'check_space', full)
    with pytest.raises(NoSpace):
        kept.back_up(site)
    assert 6 == asked[1] - asked[0]
    assert {} == stored(kept)


def test_a_pack_while_blobs_are_copied_makes_the_backup_begin_again(kept, site, monkeypatch, tmpdir):
    last = site.upload(first=b'changed')
    copy, packed = blobs._copy, []

    def pack_first(source, path, count):
        if not packed:
            packed.append(site.pack(last))
        return copy(source, path, count)
    monkeypatch.setattr(blobs, '_copy', pack_first)
    assert 'full' == kept.back_up(site)['kind']
    assert contents(site.folder) == restored(kept, tmpdir)[1]


def test_files_that_no_backup_needs_are_removed(kept, site):
    kept.back_up(site)
    last = site.upload(first=b'changed')
    site.pack(last)
    kept.back_up(site)
    assert ['changed', 'one', 'two'] == sorted(stored(kept).values())
    for name in kept.names():
        if name.startswith('2026-01-01-00-00-01'):
            kept.folder.join(name).remove()
    store = blobs.Store(str(kept.folder), progress.Counted(lambda said: None))
    kept.folder.ensure('blobs', '0x01', 'what a kill left.blob.part')
    assert 2 == store.sweep()
    assert not kept.folder.join('blobs', '0x01').check()
    assert ['changed', 'two'] == sorted(stored(kept).values())
    assert 0 == store.sweep()
    assert [] == kept.inspect()['problems']


def test_an_interrupted_backup_is_continued_and_looks_like_none(site, tmpdir):
    site.upload(**dict(('large%d' % number, os.urandom(1 << 20)) for number in range(40)))
    folder = tmpdir.mkdir('kept')
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(3):
        started = subprocess.Popen(PROGRAM + ['backup', site.path, str(folder)], **pipes)
        stage = json.loads(started.stderr.readline())['stage']
        started.send_signal(signal.SIGKILL)
        started.wait()
        if stage != 'files':
            break  # the one before was killed so late that it had copied all files
        assert [] == [each for each in folder.listdir() if each.ext in ('.fs', '.dat', '.blobs')]
    started = subprocess.Popen(PROGRAM + ['backup', site.path, str(folder)], **pipes)
    assert 42 == json.loads(started.communicate()[0])['blobs']
    started = subprocess.Popen(PROGRAM + ['inspect', str(folder)], **pipes)
    assert [] == json.loads(started.communicate()[0])['problems']
    assert [0] == sorted(set(os.stat(str(each)).st_mode & 0o077 for each in folder.visit()))


def test_the_blobs_of_a_received_part_are_asked_for_and_listed(kept, site, tmpdir):
    begin = 0
    for _ in range(2):
        part = kept.folder.join('received.part')
        with open(site.path, 'rb') as source:
            source.seek(begin)
            part.write(source.read(), 'wb')
        lacking = received.missing(str(kept.folder), str(part), begin)['missing']
        assert sorted(lacking) == sorted(
            os.path.join('blobs', name) for name in Blobs(site.folder).names()
            if name not in stored(kept))
        assert 2 - (begin > 0) == len(lacking)
        with pytest.raises(NotWhole):
            receive(kept, site, begin)
        for name in lacking:
            target = kept.folder.join(name)
            target.dirpath().ensure(dir=True)
            target.write(open(os.path.join(os.path.dirname(site.folder), name)).read())
        begin = receive(kept, site, begin)['whole']
        site.upload(third=b'three')
    assert [] == kept.inspect()['problems']
    done, got = restored(kept, tmpdir)
    assert (3, 3) == (done['blobs'], len(got))


def test_the_export_of_what_a_restore_replaces_has_its_blobs(kept, site, tmpdir):
    kept.back_up(site)
    restored(kept, tmpdir)
    site.upload(third=b'three')
    target = str(tmpdir.join('restored', 'Data.fs'))
    told = tail.export_tail(site.path, target, str(tmpdir.join('whole')))
    assert (1, ['three']) == (told['transactions'],
                              contents(str(tmpdir.join('whole', 'blobs'))).values())
    with open(site.path, 'r+b') as damaged:
        damaged.seek(10)
        damaged.write(b'x' * 30)
    told = tail.export_tail(site.path, target, str(tmpdir.join('readable')))
    assert told['damage']
    assert 'three' in contents(str(tmpdir.join('readable', 'blobs'))).values()
