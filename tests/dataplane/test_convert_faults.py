"""A conversion that is interrupted goes on; nothing is written over, and no wrong copy passes."""
import json
import os
import shutil
import signal
import sqlite3
import time

import pytest
import zc.lockfile
from ZODB.blob import Blob

from conversions import convert, ended, history, sqlite_conf, start, transactions
from data_files import Site
from indico_zodbrepl.dataplane.convert import storages
from indico_zodbrepl.dataplane.convert.failures import CopyDiffers, OtherData
from test_datafs_export import store


@pytest.fixture
def site(tmpdir):
    return history(tmpdir.join('Data.fs'))


@pytest.fixture(params=['file', 'sqlite', 'history_free'])
def target(request, tmpdir):
    if request.param == 'file':
        return tmpdir.mkdir('new').join('Data.fs')
    return sqlite_conf(tmpdir.mkdir('sqlite'), request.param == 'sqlite')


def content(path):
    with open(str(path), 'rb') as opened:
        return opened.read()


def change_a_byte(target, text=b'changed'):
    """Changes the data of the record, of those with the text in it, that is the last one."""
    if str(target).endswith('.fs'):
        path = str(target) if target.check() else str(target) + '.part'
        data = content(path)
        at = data.rindex(text)
        with open(path, 'r+b') as opened:
            opened.seek(at)
            opened.write(b'C')
        return
    with sqlite3.connect(str(target.dirpath('data', 'main.sqlite3'))) as database:
        zoid, tid, state = [row for row in database.execute(
            'SELECT zoid, tid, state FROM object_state ORDER BY tid')
            if text in bytes(row[2] or b'')][-1]
        database.execute('UPDATE object_state SET state = ? WHERE zoid = ? AND tid = ?',
                         (buffer(bytes(state).replace(text, text.title())), zoid, tid))
    database.close()


def test_verification_finds_one_changed_byte(site, target):
    site.commit(u'last', text=u'changed')
    with pytest.raises(CopyDiffers) as caught:
        convert(site.path, target, before_verifying=lambda: change_a_byte(target))
    assert 'differs in object' in str(caught.value)
    assert not target.check() or not str(target).endswith('.fs')


def test_a_changed_byte_in_an_earlier_copy_is_found_before_anything_is_added(site, target):
    site.commit(u'last', text=u'changed')
    convert(site.path, target)
    change_a_byte(target)
    before = transactions(target)
    if before[0][1] != 'p':
        site.commit(u'later')
    with pytest.raises(OtherData):
        convert(site.path, target)
    assert before == transactions(target)


def test_a_transaction_that_the_copy_lacks_is_found(site, target):
    def cut():
        if str(target).endswith('.fs'):
            part = Site(str(target) + '.part')
            size = os.path.getsize(part.path)
            with open(part.path, 'r+b') as opened:
                opened.seek(size - 8)
                length = int(opened.read().encode('hex'), 16)
                opened.truncate(size - 8 - length)
            return
        with sqlite3.connect(str(target.dirpath('data', 'main.sqlite3'))) as database:
            for table in ('object_state', 'current_object', '"transaction"'):
                try:
                    database.execute('DELETE FROM %s WHERE tid = (SELECT MAX(tid) FROM '
                                     'object_state)' % table)
                except sqlite3.OperationalError:
                    pass
        database.close()

    with pytest.raises(CopyDiffers):
        convert(site.path, target, before_verifying=cut)


def test_a_target_with_other_data_is_left_alone(site, target, tmpdir):
    other = history(tmpdir.join('other.fs'))
    convert(other.path, target)
    before = transactions(target)
    with pytest.raises(OtherData) as caught:
        convert(site.path, target)
    assert 'the target has transaction' in str(caught.value)
    assert before == transactions(target)


def test_a_target_that_is_ahead_of_the_source_is_left_alone(site, target, tmpdir):
    earlier = site.copy_to(tmpdir.join('earlier.fs'))
    site.commit(u'later')
    convert(site.path, target)
    before = transactions(target)
    with pytest.raises(OtherData):
        convert(earlier.path, target)
    assert before == transactions(target)


def test_two_files_of_which_either_could_be_meant_are_left_alone(site, tmpdir):
    target = tmpdir.mkdir('new').join('Data.fs')
    convert(site.path, target)
    shutil.copyfile(str(target), str(target) + '.part')
    with pytest.raises(OtherData) as caught:
        convert(site.path, target)
    assert 'both there' in str(caught.value)


@pytest.mark.parametrize('cut', [1, 20, 200])
def test_a_transaction_that_was_being_written_at_a_kill_is_written_again(site, cut, tmpdir):
    whole = tmpdir.join('whole.fs')
    convert(site.path, whole)
    target = tmpdir.mkdir('new').join('Data.fs')
    data = content(whole)
    target.new(basename='Data.fs.part').write(data[:-cut], 'wb')
    answer = convert(site.path, target)
    assert 1 <= answer['copied'] <= 2
    assert data == content(target)


@pytest.fixture(scope='module')
def large(tmpdir_factory):
    """A site of 40 MB, which takes a database server several commits."""
    made = Site(tmpdir_factory.mktemp('large').join('Data.fs'))
    made.commit(*[u'object %d' % number for number in range(20)], text=u'x' * (1 << 20))
    return made


@pytest.mark.parametrize(
    'end', [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)])
def test_after_an_end_at_any_moment_it_goes_on(large, target, end):
    held = []
    for growth in (1, 2, 3):
        process = start(large.path, target)
        _wait_until_it_grew(process, target, growth)
        if process.poll() is None:
            process.send_signal(end)
        _out, said = ended(process)
        if process.returncode == 0:
            break
        held.append(len(transactions(target)) if target.check() else 0)
        assert (process.returncode, said) in (
            (-signal.SIGKILL, ''), (130, 'interrupted\n'))
    assert held
    process = start(large.path, target)
    out, said = ended(process)
    assert (0, '') == (process.returncode, said)
    done = json.loads(out)
    assert done['held'] >= held[-1]
    assert len(large.tids()) == done['held'] + done['copied'] + done['lost']['transactions']
    if 'p' != transactions(target)[0][1]:
        assert transactions(large.path) == transactions(target)


def _wait_until_it_grew(process, target, times):
    """Waits until the target has grown that often, or the program has ended."""
    growing = str(target) + '.part' if str(target).endswith('.fs') else str(
        target.dirpath('data', 'main.sqlite3-wal'))
    sizes = set()
    while process.poll() is None and len(sizes) <= times:
        try:
            sizes.add(os.path.getsize(growing) >> 20)
        except OSError:
            pass  # not yet, or not any more
        time.sleep(0.001)


def test_a_relstorage_goes_on_after_the_last_group_that_was_committed(
        site, monkeypatch, tmpdir):
    target = sqlite_conf(tmpdir.mkdir('sqlite'))
    monkeypatch.setattr(storages, 'GROUP_TRANSACTIONS', 3)
    write = storages.RelStorageTarget.write
    left = [5]

    def fail_in_the_second_group(self, *args):
        write(self, *args)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(storages.RelStorageTarget, 'write', fail_in_the_second_group)
    with pytest.raises(KeyboardInterrupt):
        convert(site.path, target)
    assert transactions(site.path)[:3] == transactions(target)
    monkeypatch.undo()
    assert 3 == convert(site.path, target)['held']
    assert transactions(site.path) == transactions(target)


def test_a_file_that_a_server_has_open_is_left_alone(site, tmpdir):
    target = tmpdir.mkdir('new').join('Data.fs')
    for path in (site.path, str(target)):
        lock = zc.lockfile.LockFile(path + '.lock')
        process = start(site.path, target)
        _out, said = ended(process)
        lock.close()
        assert (5, 'a server has %s open; stop it first\n' % path) == (process.returncode, said)
    assert not target.check()


def test_a_blob_without_its_file_is_refused_rather_than_lost(site, target, tmpdir):
    store(site, tmpdir.join('elsewhere'), one=Blob('one'))
    process = start(site.path, target)
    _out, said = ended(process)
    assert 6 == process.returncode
    assert 'the file of blob' in said and 'is missing' in said


def test_a_damaged_source_is_reported_and_no_copy_passes_for_whole(site, tmpdir):
    target = tmpdir.mkdir('new').join('Data.fs')
    data = bytearray(content(site.path))
    data[len(data) // 2:len(data) // 2 + 40] = b'?' * 40
    with open(site.path, 'wb') as opened:
        opened.write(data)
    untouched = content(site.path)
    process = start(site.path, target)
    _out, said = ended(process)
    assert (4, True) == (process.returncode, site.path in said), said
    assert not target.check()
    assert untouched == content(site.path)


def test_a_source_that_is_not_there_is_reported(tmpdir):
    for source in ('none.fs', 'none.conf'):
        process = start(tmpdir.join(source), tmpdir.join('new.fs'))
        _out, said = ended(process)
        assert process.returncode in (1, 3)
        assert source in said and 'Traceback' not in said


def test_the_source_is_not_changed(site, target):
    before = content(site.path)
    convert(site.path, target)
    assert before == content(site.path)
