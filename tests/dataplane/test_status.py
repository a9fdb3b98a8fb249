"""What is said of a storage, with and without its server."""
import pytest
import transaction
import ZODB.config
from ZODB.DB import DB
from ZODB.utils import tid_repr

from indico_zodbrepl.dataplane.client.status import recorded_epoch, storage_status

from processes import wait_for
from zeo_servers import (
    ZEOServer, client_config, make_database, open_client)


def test_a_storage_in_the_same_process_is_connected_to_no_server(tmpdir):
    path = tmpdir.join('Data.fs')
    db = DB(ZODB.config.storageFromString(
        '%%import indico_zodbrepl.dataplane\n<indicostorage>\n<filestorage>\n'
        'path %s\n</filestorage>\n</indicostorage>' % path))
    connection = db.open()
    connection.root()['a'] = 1
    transaction.commit()
    last_tid = tid_repr(db.lastTransaction())
    wait_for(lambda: storage_status(db)['last_tid'] == last_tid, 'a look')
    status = storage_status(db)
    assert {'count', 'seconds'} == set(status.pop('calls'))
    assert 0 == status.pop('commits')['conflicts']
    expected = {
        'storage': 'FileStorage(%s)' % path, 'server': None, 'connected': True,
        'read_only': False, 'writable': True,
        'last_tid': last_tid,
        'cache': {'connections': 1, 'objects': 1, 'active': 1, 'limit': 400}}
    assert expected == status
    db.close()


def test_a_file_that_is_gone_is_no_connection_and_a_pack_is_none_the_less(tmpdir):
    path = tmpdir.join('Data.fs')
    db = DB(ZODB.config.storageFromString(
        '%%import indico_zodbrepl.dataplane\n<indicostorage>\n<filestorage>\n'
        'path %s\n</filestorage>\n</indicostorage>' % path))
    looks = []
    see = db.storage.liveness._seen
    db.storage.liveness._seen = lambda *seen: (see(*seen), looks.append(seen))
    db.pack()
    del looks[:]
    wait_for(lambda: len(looks) > 1, 'a look at the new file')
    assert storage_status(db)['connected']
    path.rename(tmpdir.join('elsewhere'))
    wait_for(lambda: not storage_status(db)['connected'], 'the loss')
    tmpdir.join('elsewhere').rename(path)
    wait_for(lambda: storage_status(db)['connected'], 'the file')
    db.close()


def test_a_client_tells_which_server_it_is_connected_to(processes, tmpdir):
    make_database(tmpdir.join('made.fs'))
    primary, secondary = servers = [
        ZEOServer(processes, tmpdir.join(name), tmpdir.join('made.fs'))
        for name in 'ab']
    primary.start()
    secondary.start(read_only=True)
    db = DB(open_client(servers))
    wait_for(lambda: storage_status(db)['writable'], 'the primary')
    status = storage_status(db)
    assert 'ClientStorage(127.0.0.1:%d, 127.0.0.1:%d)' % (
        primary.port, secondary.port) == status['storage']
    assert '127.0.0.1:%d' % primary.port == status['server']
    assert not status['read_only']

    primary.kill()
    wait_for(lambda: storage_status(db)['connected'] and
             storage_status(db)['read_only'], 'the fallback')
    status = storage_status(db)
    assert '127.0.0.1:%d' % secondary.port == status['server']
    assert not status['writable']

    secondary.kill()
    wait_for(lambda: not storage_status(db)['connected'], 'the end')
    away = storage_status(db)
    assert (None, False, False) == (
        away['server'], away['read_only'], away['writable'])
    assert status['last_tid'] == away['last_tid']
    assert away['cache']['client_records'] > 0
    db.close()


def test_a_server_is_named_as_the_configuration_names_it(processes, tmpdir):
    """By that name the cluster's status finds the node."""
    server = ZEOServer(processes, tmpdir.join('a'))
    server.start()
    db = DB(ZODB.config.storageFromString(
        client_config([server]).replace('127.0.0.1', 'localhost')))
    assert 'localhost:%d' % server.port == storage_status(db)['server']
    db.close()


def test_an_answer_does_not_need_a_server_that_answers(processes, tmpdir):
    server = ZEOServer(processes, tmpdir.join('a'))
    server.start()
    db = DB(open_client([server]))
    server.process.pause()
    assert storage_status(db)['connected']
    server.process.resume()
    db.close()


@pytest.mark.parametrize('content, expected', [
    ('{"epoch": 3, "primary": "b"}', (3, 'b')),
    ('{"epoch": 3', (None, None)),
    ('[]', (None, None)),
    ('{"epoch": true, "primary": "b"}', (None, None)),
    ('{"epoch": 3, "primary": null}', (None, None)),
    (None, (None, None)),
])
def test_the_epoch_is_what_the_record_of_this_host_says(
        tmpdir, content, expected):
    path = tmpdir.join('one.json')
    if content is not None:
        path.write(content)
    found = recorded_epoch(str(path))
    assert expected == (found['epoch'], found['epoch_primary'])
