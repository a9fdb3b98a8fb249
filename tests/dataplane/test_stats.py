"""What a database holds is summed by class and module, from any storage, without importing a class."""
import json
import os
import signal
import subprocess
import sys

import pytest
import transaction
import ZODB
from persistent.mapping import PersistentMapping
from ZODB.FileStorage import FileStorage
from ZODB.serialize import ObjectWriter

from blob_sites import BlobSite
from conversions import convert, history, sqlite_conf
from data_files import Site
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.stats import program, walks
from indico_zodbrepl.dataplane.stats.sums import Sums, class_of
from neo_clusters import NEOCluster
from zeo_servers import ZEOServer

MAPPING = 'persistent.mapping.PersistentMapping'
CONF = '<filestorage>\n  path %s\n  read-only true\n</filestorage>\n'
CLIENT = ('%%import ZEO\n%%import indico_zodbrepl.dataplane\n<indicostorage>\n<clientstorage>\n'
          '  server 127.0.0.1:%d\n  wait-timeout 30\n</clientstorage>\n</indicostorage>\n')


def quiet(done, total, records):
    """Takes progress and tells nobody."""


@pytest.fixture
def site(tmpdir):
    """Root, a, b, hot; the root and hot have older states, c was removed and its creation undone."""
    made = Site(tmpdir.join('Data.fs'))
    made.commit(u'a', u'b')
    made.commit(u'b', text=u'x' * 1000)
    tid, = made.commit(u'c')
    made.undo(tid)
    return made


def truth(site):
    """Returns {oid: [sizes of its states, oldest first]}; None for a state without data."""
    storage = FileStorage(site.path, read_only=True)
    states = {}
    for each in storage.iterator():
        for record in each:
            states.setdefault(record.oid, []).append(record.data and len(record.data))
    storage.close()
    return states


@pytest.fixture
def conf(site, tmpdir):
    target = tmpdir.join('zodb.conf')
    target.write(CONF % site.path)
    return str(target)


def check(site, answer):
    sums, largest, _ = answer
    states = truth(site)
    present = {oid: sizes[-1] for oid, sizes in states.items() if sizes[-1] is not None}
    old = [size for oid, sizes in states.items() for size in (sizes[:-1] if oid in present else sizes)
           if size is not None]
    one, = sums.classes()
    assert {'name': MAPPING, 'objects': 4, 'bytes': sum(present.values()),
            'largest': max(present.values()), 'revisions': len(old),
            'revision_bytes': sum(old)} == one
    assert (4, sum(present.values()), len(old), sum(old)) == (
        sums.objects, sums.bytes, sums.revisions, sums.revision_bytes)
    module, = sums.modules()
    assert dict(one, name='persistent.mapping') == module
    expected = sorted(((size, oid.encode('hex')) for oid, size in present.items()), reverse=True)
    assert expected[:2] == [(each['bytes'], each['oid']) for each in largest]
    assert 1000 < largest[0]['bytes']


def test_a_file_is_summed_exactly(site):
    answer = walks.walk_file(site.path, 2, quiet)
    check(site, answer)
    assert {'transactions': 6, 'deleted': 1, 'history': 'counted'} == {
        key: answer[2][key] for key in ('transactions', 'deleted', 'history')}


def test_a_storage_is_summed_exactly_by_its_transactions(site, conf):
    answer = walks.walk(conf, 2, quiet)
    check(site, answer)
    assert {'transactions': 6, 'deleted': 1, 'history': 'counted', 'file_bytes': None,
            'blobs': None} == answer[2]


def test_the_files_of_blobs_are_summed(tmpdir):
    made = BlobSite(tmpdir.mkdir('node'))
    made.upload(one=b'before', two=b'', lost=b'lost')
    made.upload(one=b'afterwards')
    os.unlink(made.blob('lost'))
    _, _, found = walks.walk_file(made.path, 2, quiet)

    assert {'files': 2, 'bytes': 10, 'old_files': 1, 'old_bytes': 6, 'missing': 1} == found['blobs']


def test_a_storage_without_its_history_is_summed_by_its_objects(site, conf):
    with_history, _, _ = walks.walk(conf, 2, quiet)
    sums, largest, found = walks.walk(conf, 2, quiet, history=False)
    assert 'not counted' == found['history']
    assert (with_history.objects, with_history.bytes, 0) == (sums.objects, sums.bytes, sums.revisions)
    assert 2 == len(largest)


@pytest.mark.parametrize('history', [True, False])
def test_a_running_server_is_summed_through_its_clients_configuration(site, tmpdir, processes, history):
    server = ZEOServer(processes, tmpdir.join('server'), data=site.path)
    server.start()
    target = tmpdir.join('client.conf')
    target.write(CLIENT % server.port)
    by_file = walks.walk_file(site.path, 3, quiet)
    sums, largest, _ = walks.walk(str(target), 3, quiet, history)
    assert by_file[1] == largest
    assert (by_file[0].objects, by_file[0].bytes) == (sums.objects, sums.bytes)
    assert (by_file[0].revisions if history else 0) == sums.revisions


@pytest.fixture(scope='module')
def eventful(tmpdir_factory):
    """A history in which several transactions were undone at once: an object has two records in one."""
    return history(tmpdir_factory.mktemp('eventful').join('Data.fs'))


def totals(sums):
    return [sums.objects, sums.bytes, sums.revisions, sums.revision_bytes]


def test_of_two_records_in_one_transaction_the_last_one_counts(eventful, tmpdir):
    conf = tmpdir.join('zodb.conf')
    conf.write(CONF % eventful.path)
    by_file = walks.walk_file(eventful.path, 99, quiet)
    by_storage = walks.walk(str(conf), 99, quiet)
    assert totals(by_file[0]) == totals(by_storage[0])
    assert by_file[1] == by_storage[1]


def check_converted(eventful, conf):
    """A copy by another engine has the same objects; it has one record an object and transaction."""
    expected, largest, _ = walks.walk_file(eventful.path, 99, quiet)
    for with_history in (True, False):
        sums, found, told = walks.walk(str(conf), 99, quiet, with_history)
        assert totals(expected)[:2] == totals(sums)[:2]
        assert sorted(largest, key=str) == sorted(found, key=str)
        assert expected.classes()[0]['objects'] == sums.classes()[0]['objects']
    return walks.walk(str(conf), 99, quiet)


def test_relstorage_is_summed_with_its_history(eventful, tmpdir):
    conf = sqlite_conf(tmpdir)
    convert(eventful.path, conf)
    sums, _, found = check_converted(eventful, conf)
    assert ('counted', 0) == (found['history'], found['transactions'] - len(eventful.tids()))
    assert 10 < sums.revisions


def test_relstorage_without_history_says_that_it_keeps_none(eventful, tmpdir):
    conf = sqlite_conf(tmpdir, keep_history=False)
    convert(eventful.path, conf)
    sums, _, found = check_converted(eventful, conf)
    assert ('not kept', 0) == (found['history'], sums.revisions)


def test_neo_is_summed_with_its_history(eventful, tmpdir):
    cluster = NEOCluster(tmpdir.join('neo').ensure(dir=True), storages=1, replicas=0)
    try:
        cluster.found()
        conf = tmpdir.join('zodb.conf')
        conf.write(cluster.configuration())
        convert(eventful.path, conf)
        sums, _, found = check_converted(eventful, conf)
        assert 'counted' == found['history']
        assert 10 < sums.revisions
    finally:
        cluster.close()


def test_what_was_undone_back_to_an_older_state_counts_with_that_states_size(tmpdir):
    made = Site(tmpdir.join('Data.fs'))
    made.commit(u'a')
    tid, = made.commit(u'a', text=u'y' * 500)
    before = walks.walk_file(made.path, 9, quiet)[0]
    made.undo(tid)
    after, largest, _ = walks.walk_file(made.path, 9, quiet)
    assert before.objects == after.objects
    assert before.bytes - after.bytes > 400
    assert max(each['bytes'] for each in largest) < 400


def test_a_file_is_read_a_few_times_at_most(tmpdir, monkeypatch):
    """Each record was read with 128 KB around it: 433 s for 11 GB."""
    site = Site(tmpdir.join('Data.fs'))
    db = ZODB.DB(site.open())
    with db.transaction() as connection:
        connection.root().update((number, PersistentMapping(text=b'x' * 5000)) for number in range(300))
    db.close()
    read, raw = [], DataFile.raw

    def noted(self, position, length):
        read.append(length)
        return raw(self, position, length)
    monkeypatch.setattr(DataFile, 'raw', noted)
    sums, _, _ = walks.walk_file(site.path, 3, quiet)

    assert 301 == sums.objects
    assert sum(read) < 4 * os.path.getsize(site.path)


def test_an_empty_file_holds_nothing(tmpdir):
    FileStorage(str(tmpdir.join('Data.fs'))).close()
    sums, largest, found = walks.walk_file(str(tmpdir.join('Data.fs')), 5, quiet)
    assert (0, 0, [], 0) == (sums.objects, sums.bytes, largest, found['transactions'])


def test_object_ids_far_apart_are_distinguished_from_each_other():
    seen = walks.Seen()
    oids = [('%016x' % number).decode('hex') for number in (0, 1, 7, 8, 32767, 32768, 1 << 40, (1 << 64) - 1)]
    assert [True] * 8 == [seen.add(oid) for oid in oids]
    assert [False] * 8 == [seen.add(oid) for oid in oids]


def test_the_class_is_found_however_the_record_was_written(tmpdir):
    writer = ObjectWriter()
    record = writer.serialize(PersistentMapping())
    older = b'(U\x09some.oddqU\x05Thingqt.'.replace(b'q', b'q\x01', 1)
    assert MAPPING == class_of(record, None)
    assert 'some.app.Thing' == class_of(b'\x80\x02csome.app\nThing\nq\x01.}q\x02.', None)
    assert 'some.app.Thing' == class_of(b'(csome.app\nThing\nq\x01Ntq\x02.}q\x02.', None)
    assert 'a.B' == class_of(b'\x80\x02U\x01aU\x01B\x86N\x86.N.', lambda: b'\x80\x02U\x01aU\x01B\x86N\x86.N.')
    assert '?' == class_of(older[:3], lambda: b'no pickle')


def test_indicos_objects_are_told_by_name_and_nothing_of_it_is_imported(tmpdir):
    path = str(tmpdir.join('Data.fs'))
    subprocess.check_call([sys.executable, '-c', (
        'import sys, types, persistent, transaction, ZODB\n'
        'module = types.ModuleType("MaKaC.conference")\n'
        'package = types.ModuleType("MaKaC"); package.conference = module\n'
        'sys.modules.update({"MaKaC": package, "MaKaC.conference": module})\n'
        'class Conference(persistent.Persistent): pass\n'
        'Conference.__module__ = "MaKaC.conference"; module.Conference = Conference\n'
        'one = Conference(); one.id = "12"; one.title = "A title"; one.text = "z" * 9000\n'
        'db = ZODB.DB(sys.argv[1]); connection = db.open(); connection.root()["one"] = one\n'
        'transaction.commit(); connection.close(); db.close()\n'), path])
    output = subprocess.check_output([sys.executable, '-c', (
        'import json, sys\n'
        'from indico_zodbrepl.dataplane.stats import program as stats\n'
        'assert stats.main(["file", sys.argv[1], "--top", "1"]) == 0\n'
        'assert not [name for name in sys.modules if name.startswith(("MaKaC", "indico."))]\n'), path])
    answer = json.loads(output)
    one, = answer['largest']
    assert ('MaKaC.conference.Conference', 'Conference 12 "A title"') == (one['class'], one['what'])
    assert ['MaKaC.conference.Conference', MAPPING] == [each['name'] for each in answer['classes']]


def test_progress_is_reported_twice_a_second_and_counts_records():
    now, lines = [0.0], []
    progress = program.Progress(lines.append, clock=lambda: now[0])
    for seconds in (0.1, 0.4, 0.6, 0.9, 1.2):
        now[0] = seconds
        progress(int(seconds * 10), 12, 2)
    assert [{'done': 6, 'total': 12, 'records': 6}, {'done': 12, 'total': 12, 'records': 10}] == [
        json.loads(line) for line in lines]


@pytest.mark.parametrize('make, status', [
    (lambda path: None, 3), (lambda path: path.write('no Data.fs at all'), 4)])
def test_what_is_no_data_file_is_reported_in_one_line(tmpdir, capfd, make, status):
    path = tmpdir.join('Data.fs')
    make(path)
    assert status == program.main(['file', str(path)])
    assert 1 == len(capfd.readouterr()[1].splitlines())


def test_an_absent_server_is_reported_in_one_line(tmpdir, capfd):
    target = tmpdir.join('client.conf')
    target.write((CLIENT % 1).replace('wait-timeout 30', 'wait-timeout 1'))
    assert 6 == program.main(['storage', str(target)])
    assert 'away' in capfd.readouterr()[1]


def test_an_interruption_ends_it_in_one_line(site, monkeypatch, capfd):
    def interrupt(*_):
        raise KeyboardInterrupt
    monkeypatch.setattr(walks, 'walk_file', interrupt)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert 130 == program.main(['file', site.path])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert 'interrupted\n' == capfd.readouterr()[1]


def test_only_so_many_of_the_largest_are_kept():
    sums = Sums(2)
    for number, size in enumerate([5, 1, 9, 7, 3]):
        sums.add('a.B', '%08d' % number, size)
    assert [9, 7] == [each['bytes'] for each in sums.largest(lambda oid, where: None)]
    assert (5, 25) == (sums.objects, sums.bytes)
