"""A data file is copied while a server writes or packs it, and the copy can follow it."""
import os
import signal
import subprocess
import sys

import pytest
import ZODB.blob
from ZODB.FileStorage import FileStorage

from blob_sites import LARGE, BlobSite
from data_files import Site
from indico_zodbrepl.dataplane.datafs import copying, disk
from indico_zodbrepl.dataplane.datafs.blobs import Blobs
from indico_zodbrepl.dataplane.datafs.compare import compare
from indico_zodbrepl.dataplane.datafs.copying import copy
from indico_zodbrepl.dataplane.datafs.failures import InUse, Missing, NoSpace, Occupied
from processes import wait_for
from test_datafs_compare import end, writer  # noqa: F401 a fixture
from test_datafs_export import store

COPY = [sys.executable, '-m', 'indico_zodbrepl.dataplane.datafs', 'copy']


@pytest.fixture
def site(tmpdir):
    made = Site(tmpdir.join('Data.fs'))
    made.commit(u'a', u'b', u'c')
    return made


@pytest.fixture
def target(tmpdir):
    return tmpdir.mkdir('new').join('Data.fs')


def content(path):
    with open(str(path), 'rb') as opened:
        return opened.read()


def ignore(progress):
    """For copies whose progress is of no interest."""


def test_a_copy_is_the_same_file_and_nothing_else_stays(site, target):
    told = []
    answer = copy(site.path, str(target), told.append)

    assert content(site.path) == content(target)
    assert site.tids()[-1].encode('hex') == answer['tid']
    assert {'Data.fs', 'Data.fs.lock'} == set(os.listdir(target.dirname))
    assert {'stage': 'data', 'done': answer['bytes'], 'total': answer['bytes']} == told[-1]


def test_a_file_that_is_being_written_is_copied_up_to_a_complete_transaction(
        site, target, writer):  # noqa: F811
    writer(site.path, size=300000)
    for number in range(5):
        copied = str(target) + str(number)
        copy(site.path, copied, ignore)
        assert compare(copied, site.path)['relation'] in ('behind', 'equal')
        storage = FileStorage(copied)
        assert os.path.getsize(copied) == storage.getSize()
        storage.close()


def test_a_pack_that_replaces_the_source_is_noticed(site, target, monkeypatch):
    tids = site.tids()
    append = copying._append

    def packed_meanwhile(*arguments):
        monkeypatch.undo()
        for position in append(*arguments):
            yield position
        site.pack(tids[-1])
        site.commit(u'later')

    monkeypatch.setattr(copying, '_append', packed_meanwhile)
    copy(site.path, str(target), ignore)
    assert content(site.path) == content(target)


@pytest.mark.parametrize('left', [b'', b'FS21', b'something else', None, 'more'])
def test_what_an_earlier_run_left_is_taken_over_as_far_as_it_is_the_same(
        site, target, left):
    whole = content(site.path)
    same = {None: whole[:700], 'more': whole + b'more'}.get(left, left)
    target.new(basename='Data.fs.part').write(same, 'wb')
    answer = copy(site.path, str(target), ignore)

    assert whole == content(target)
    assert {None: 700, 'more': len(whole), b'FS21': 4}.get(left, 0) == answer['resumed']


def test_a_copy_that_was_killed_is_finished_by_the_next_one(site, target, writer):  # noqa: F811
    process = writer(site.path, size=8 << 20)
    wait_for(lambda: os.path.getsize(site.path) > 64 << 20, 'a file of 64 MB')
    end(process)
    copier = subprocess.Popen(COPY + [site.path, str(target)], stderr=subprocess.PIPE)
    copier.stderr.readline()
    copier.send_signal(signal.SIGKILL)
    copier.wait()
    assert not target.check()

    assert 0 < copy(site.path, str(target), ignore)['resumed']
    assert 'equal' == compare(str(target), site.path)['relation']


def test_a_target_that_exists_or_is_in_use_is_left_alone(site, target):
    other = Site(target)
    storage = other.open()
    try:
        with pytest.raises(InUse):
            copy(site.path, str(target), ignore)
    finally:
        storage.close()
    before = content(target)
    with pytest.raises(Occupied):
        copy(site.path, str(target), ignore)
    assert before == content(target)


def test_blobs_come_with_it(site, target, tmpdir):
    blobs = tmpdir.join('blobs')
    store(site, blobs, one=ZODB.blob.Blob('one'), two=ZODB.blob.Blob('twotwo'))
    answer = copy(site.path, str(target), ignore)

    copied = target.dirpath('blobs')
    assert (2, 9) == (answer['blobs'], answer['blob_bytes'])
    assert ({path.relto(blobs): path.read() for path in blobs.visit('*.blob')}
            == {path.relto(copied): path.read() for path in copied.visit('*.blob')})
    assert blobs.join('.layout').read() == copied.join('.layout').read()


def test_a_copy_without_blobs_tells_its_server_that_there_are_none(site, target, tmpdir):
    """Without the file it would look for one in all of the data file before it starts."""
    store(site, tmpdir.join('blobs'))
    copy(site.path, str(target), ignore)

    assert ['.layout'] == os.listdir(str(target.dirpath('blobs')))


@pytest.fixture
def uploads(tmpdir):
    made = BlobSite(tmpdir.mkdir('uploads'))
    made.upload(empty=b'', small=b'small')
    made.upload(large=LARGE, changed=b'before')
    return made


def copied_blobs(target):
    return {name: content(target.dirpath('blobs', name)) for name in Blobs(
        target.dirpath('blobs').strpath).names()}


def blobs_of(site):
    return {name: content(os.path.join(site.folder, name)) for name in Blobs(site.folder).names()}


def test_progress_counts_the_bytes_of_blobs(uploads, target):
    told = []
    answer = copy(uploads.path, str(target), told.append)

    assert (4, len(LARGE) + 11) == (answer['blobs'], answer['blob_bytes'])
    assert {'stage': 'blobs', 'done': len(LARGE) + 11, 'total': len(LARGE) + 11} == told[-1]
    assert 'equal' == compare(str(target), uploads.path)['relation']


def test_an_interrupted_copy_goes_on_with_the_blobs_that_it_lacks(uploads, target, monkeypatch):
    copied = []

    def copy_two(source, path):
        if len(copied) == 2:
            raise KeyboardInterrupt
        copied.append(path)
        whole(source, path)
    whole = disk.copy_file
    monkeypatch.setattr(disk, 'copy_file', copy_two)
    with pytest.raises(KeyboardInterrupt):
        copy(uploads.path, str(target), ignore)
    first = sum(map(os.path.getsize, copied))
    del copied[:]
    answer = copy(uploads.path, str(target), ignore)

    assert 2 == len(copied)
    assert (4, len(LARGE) + 11 - first) == (answer['blobs'], answer['blob_bytes'])
    assert blobs_of(uploads) == copied_blobs(target)


def test_a_blob_that_commits_while_blobs_are_copied_comes_with_its_transaction(
        uploads, target, monkeypatch):
    find = copying._copy_blobs

    def upload_first(*arguments):
        uploads.upload(later=b'later')
        return find(*arguments)
    monkeypatch.setattr(copying, '_copy_blobs', upload_first)
    before = blobs_of(uploads)
    copy(uploads.path, str(target), ignore)

    assert 'behind' == compare(str(target), uploads.path)['relation']
    assert before == copied_blobs(target)


@pytest.mark.parametrize('when', ['before', 'after'])
def test_a_pack_while_blobs_are_copied_leaves_none_out_and_none_over(
        uploads, target, monkeypatch, when):
    uploads.upload(changed=b'afterwards')
    find, packs = copying._copy_blobs, []

    def pack_meanwhile(*arguments):
        if not packs and when == 'before':
            packs.append(uploads.pack(uploads.tids()[-1]))
        found = find(*arguments)
        if not packs:
            packs.append(uploads.pack(uploads.tids()[-1]))
        return found
    monkeypatch.setattr(copying, '_copy_blobs', pack_meanwhile)
    copy(uploads.path, str(target), ignore)

    assert content(uploads.path) == content(target)
    assert 4 == len(blobs_of(uploads))
    assert blobs_of(uploads) == copied_blobs(target)


def test_a_disk_that_is_too_small_for_the_blobs_is_reported_before_they_are_copied(
        uploads, target, monkeypatch):
    class Small(object):
        f_bavail = 1000
        f_frsize = 4096

    monkeypatch.setattr(copying.os, 'statvfs', lambda path: Small)
    with pytest.raises(NoSpace):
        copy(uploads.path, str(target), ignore)
    assert not target.check()
    assert {} == copied_blobs(target)


def test_a_missing_source_is_reported_and_leaves_nothing(tmpdir, target):
    with pytest.raises(Missing):
        copy(str(tmpdir.join('none')), str(target), ignore)
    assert [] == target.dirpath().listdir()


def test_too_small_a_disk_is_reported_before_anything_is_written(site, target, monkeypatch):
    class Full(object):
        f_bavail = 0
        f_frsize = 4096

    monkeypatch.setattr(copying.os, 'statvfs', lambda path: Full)
    with pytest.raises(NoSpace):
        copy(site.path, str(target), ignore)
    assert not target.check()
