"""A storage server that sends a large blob answers its client's other requests meanwhile."""
import threading

import pytest
import transaction
from ZODB.blob import Blob
from ZODB.DB import DB
from ZODB.POSException import POSKeyError

from nodes import Node
from processes import wait_for
from zeo_servers import open_client

BYTES = 100 << 20


@pytest.fixture
def node(processes, tmpdir):
    node = Node(processes, tmpdir, 'a')
    node.start()
    return node


@pytest.fixture
def stored(node, tmpdir):
    """The object id and transaction of a large blob on the server."""
    db = DB(open_client([node], blob_dir=str(tmpdir.join('writer'))))
    connection = db.open()
    connection.root()['file'] = blob = Blob()
    with blob.open('w') as target:
        for number in range(BYTES >> 20):
            target.write(('%01023d\n' % number) * 1024)
    transaction.commit()
    blob._p_activate()
    found = blob._p_oid, blob._p_serial
    connection.close()
    db.close()
    return found


def test_other_requests_are_answered_while_a_large_blob_is_sent(node, stored, tmpdir):
    cache = tmpdir.join('reader')
    storage = open_client([node], blob_dir=str(cache))
    paths, between = [], 0
    thread = threading.Thread(target=lambda: paths.append(storage.loadBlob(*stored)))
    thread.start()
    wait_for(lambda: paths or list(cache.visit('*.dl')), 'the beginning of the transfer')
    while list(cache.visit('*.dl')):
        storage.ping()
        between += 1 if list(cache.visit('*.dl')) else 0
    thread.join()
    assert between > 1
    with open(paths[0], 'rb') as content:
        assert all(('%01023d\n' % number) * 1024 == content.read(1 << 20) for number in range(BYTES >> 20))
        assert b'' == content.read()
    storage.close()


def test_a_blob_that_is_missing_is_reported(node, stored, tmpdir):
    for each in tmpdir.join('a', 'blobs').visit('*.blob'):
        each.remove()
    storage = open_client([node], blob_dir=str(tmpdir.join('reader')))
    with pytest.raises(POSKeyError):
        storage.loadBlob(*stored)
    storage.close()
