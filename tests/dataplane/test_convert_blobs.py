"""The blob files are converted with their transactions, and verified."""
import os
import time

import pytest
import ZODB
from ZODB.blob import Blob

from blob_sites import BlobSite
from conversions import convert, ended, sqlite_conf, start, transactions
from indico_zodbrepl.dataplane.convert import copying
from indico_zodbrepl.dataplane.convert.blobs import InDatabase
from indico_zodbrepl.dataplane.convert.failures import CanNotBeKept, CopyDiffers, OtherData
from indico_zodbrepl.dataplane.convert.storages import NEO, open_conf
from indico_zodbrepl.dataplane.programs import relstorage_export

LARGE = os.urandom(3 << 20)


@pytest.fixture
def site(tmpdir):
    made = BlobSite(tmpdir.mkdir('node'))
    made.commit(u'a')
    made.upload(empty=b'', first=b'one', large=LARGE)
    made.undo(made.upload(first=b'changed by mistake'))
    made.upload(first=b'changed')
    return made


KINDS = ['file', 'files, history', 'rows, history', 'files, no history', 'rows, no history']


def place(tmpdir, kind, name='target'):
    folder = tmpdir.mkdir(name)
    if kind == 'file':
        return folder.join('Data.fs')
    where, _, history = kind.partition(', ')
    return sqlite_conf(folder, history == 'history', where)


@pytest.fixture(params=KINDS)
def target(request, tmpdir):
    return place(tmpdir, request.param)


def blobs(path):
    """Returns the content of each blob of a storage, by oid and tid."""
    found = {}
    with copying.source(str(path)) as opened:
        for each in opened.transactions():
            for oid in each.blobs():
                with opened.blobs.file(oid, each.tid) as name:
                    found[oid, each.tid] = open(name).read()
    return found


def current(path):
    """Returns what the blobs of a storage have now, through a database."""
    storage = BlobSite(path.dirpath()).open() if path.ext == '.fs' else open_conf(str(path))
    database = ZODB.DB(storage)
    with database.transaction() as connection:
        root = connection.root()
        found = dict((key, root[key].open().read()) for key in ('empty', 'first', 'large'))
    database.close()
    return found


def test_each_storage_has_the_same_blobs(site, target):
    answer = convert(site.path, target)
    wanted = blobs(site.path)
    newest = 'no history' in target.dirname or answer['blobs'] == 3
    assert (3 if newest else 6) == answer['blobs'] == len(blobs(target))
    assert set(blobs(target).items()) <= set(wanted.items())
    assert answer['blob_bytes'] == sum(map(len, blobs(target).values()))
    assert {'empty': '', 'first': 'changed', 'large': LARGE} == current(target)


@pytest.mark.parametrize('kind', ['files, history', 'rows, history'])
def test_there_and_back_the_blobs_are_the_same(site, kind, tmpdir):
    between, back = place(tmpdir, kind, 'between'), tmpdir.mkdir('back').join('Data.fs')
    convert(site.path, between)
    convert(between, back)
    assert blobs(site.path) == blobs(back)
    assert transactions(site.path) == transactions(back)
    assert 'bushy' == back.dirpath('blobs', '.layout').read()
    assert {'empty': '', 'first': 'changed', 'large': LARGE} == current(back)


@pytest.mark.parametrize('kind', [each for each in KINDS if 'no history' not in each])
def test_what_came_later_is_added_with_its_blobs(site, kind, tmpdir):
    target = place(tmpdir, kind)
    convert(site.path, target)
    site.upload(first=b'changed again', more=b'more')
    answer = convert(site.path, target)
    assert (1, 2, 17) == (answer['copied'], answer['blobs'], answer['blob_bytes'])
    assert 'changed again' == current(target)['first']


@pytest.mark.parametrize('kind', ['file', 'files, history'])
@pytest.mark.parametrize('harm', ['changed', 'missing'])
def test_a_blob_that_is_not_the_sources_is_found(site, kind, harm, tmpdir):
    target = place(tmpdir, kind)

    def damage():
        path, = [each for each in target.dirpath('blobs').visit('*.blob')
                 if each.read() == 'changed']
        path.remove() if harm == 'missing' else path.write('CHANGED')
    with pytest.raises(CopyDiffers) as raised:
        convert(site.path, target, before_verifying=damage)
    assert 'the file of blob' in str(raised.value)
    with pytest.raises(OtherData):
        convert(site.path, target)


def test_progress_counts_the_bytes_of_blobs(site, target, monkeypatch):
    monkeypatch.setattr(copying, 'REPORT_EACH', 0.0)
    said = []
    convert(site.path, target, said.append)
    for stage in ('copy', 'verify'):
        last = [each for each in said if each['stage'] == stage][-1]
        assert last['bytes'] > len(LARGE)


@pytest.mark.parametrize('kind', ['file', 'files, history'])
def test_no_file_is_in_memory(kind, tmpdir):
    site = BlobSite(tmpdir.mkdir('node'))
    site.upload(large=LARGE * 50)
    process = start(site.path, place(tmpdir, kind))
    used = 0
    while process.poll() is None:
        used = peak_memory(process.pid) or used
        time.sleep(0.02)
    assert 0 == process.returncode
    assert 0 < used < len(LARGE * 50)


def peak_memory(pid):
    """Returns the highest resident size of a process in bytes; None if it has ended.

    That of wait4 counts the process that it was forked from as well.
    """
    with open('/proc/%d/status' % pid) as status:
        found = [each.split()[1] for each in status if each.startswith('VmHWM')]
    return int(found[0]) << 10 if found else None


def test_after_a_kill_it_goes_on(site, target):
    for number in range(10):
        site.upload(**{'more%d' % number: os.urandom(1 << 20)})
    for _ in range(3):
        process = start(site.path, target)
        process.stderr.readline()
        process.kill()
        process.communicate()
    process = start(site.path, target)
    output, said = ended(process)
    assert (0, '') == (process.returncode, said)
    assert set(blobs(target).items()) <= set(blobs(site.path).items())
    assert 'changed' == current(target)['first']


class NoBlobs(object):
    """A target that keeps no blobs, as NEO does, and must not be asked for anything."""

    keeps = NEO


def test_a_target_that_keeps_no_blobs_refuses_them_before_anything_is_written(site, tmpdir):
    between = place(tmpdir, 'rows, history')
    convert(site.path, between)
    for source in (site.path, between):
        with copying.source(str(source)) as opened:
            with pytest.raises(CanNotBeKept) as raised:
                copying.Conversion(opened, NoBlobs(), lambda progress: None).run()
        assert 'is a blob, and the target keeps none' in str(raised.value)


def test_copies_of_blobs_in_a_database_are_removed(site, tmpdir):
    target = place(tmpdir, 'rows, history')
    convert(site.path, target)
    storage = open_conf(str(target))
    found = InDatabase(storage)
    (oid, tid), content = [each for each in blobs(target).items() if each[1] == LARGE][0]
    with found.file(oid, tid) as path:
        assert content == open(path).read()
    found.close()
    storage.close()
    assert [] == target.dirpath('blobs', 'tmp').listdir()


def test_the_export_of_divergent_transactions_has_their_blobs(site, tmpdir, capsys):
    own, other = (place(tmpdir, 'files, history', name) for name in ('own', 'other'))
    convert(site.path, own)
    convert(site.path, other)
    database = ZODB.DB(open_conf(str(own)))
    with database.transaction() as connection:
        connection.root()['private'] = Blob('private')
        with connection.root()['first'].open('w') as changed:
            changed.write('changed alone')
    database.close()
    tail = tmpdir.join('tail')
    assert 0 == relstorage_export.main([str(own), str(other), str(tail), '--named', '/own'])
    assert ['changed alone', 'private'] == sorted(
        path.read() for path in tail.join('blobs').visit('*.blob'))
