"""New object ids after a server was killed and started again."""
import time

import pytest
import transaction
from persistent.mapping import PersistentMapping
from ZODB.DB import DB
from ZODB.POSException import ReadOnlyError

from zeo_servers import ZEOServer, make_database, open_client


@pytest.fixture
def server(processes, tmpdir):
    make_database(tmpdir.join('made.fs'))
    server = ZEOServer(processes, tmpdir.join('server'), tmpdir.join('made.fs'))
    server.start()
    return server


def commit_over_a_restart(server, storage):
    """Commits one new object, kills and restarts the server, commits 250 more."""
    db = DB(storage)
    try:
        root = db.open().root()
        root['first'] = PersistentMapping()
        transaction.commit()
        server.kill()
        server.start()
        wait_for_reconnection(storage)
        for number in range(250):
            root[number] = PersistentMapping(number=number)
        transaction.commit()
        return [root[number]['number'] for number in range(250)]
    finally:
        transaction.abort()
        db.close()


def wait_for_reconnection(storage):
    deadline = time.time() + 60
    while storage._connection_generation < 2 or not storage.is_connected():
        assert time.time() < deadline, 'no reconnection'
        time.sleep(0.05)


def test_a_plain_client_stores_two_objects_under_one_id(server):
    with pytest.raises(ValueError, match='same oid'):
        commit_over_a_restart(server, open_client([server], wrapped=False))


def test_ours_takes_no_id_that_the_server_may_give_out_again(server):
    assert list(range(250)) == commit_over_a_restart(server, open_client([server]))


def test_a_read_only_server_gives_no_ids(processes, tmpdir):
    make_database(tmpdir.join('made.fs'))
    server = ZEOServer(processes, tmpdir.join('server'), tmpdir.join('made.fs'))
    server.start(read_only=True)
    storage = open_client([server])
    try:
        with pytest.raises(ReadOnlyError):
            storage.new_oid()
    finally:
        storage.close()
