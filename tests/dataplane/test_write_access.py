"""Writers wait out the moment in which another server takes over."""
import threading
import time

import pytest
import transaction
from ZEO.Exceptions import ClientDisconnected
from ZODB.Connection import TransactionMetaData
from ZODB.DB import DB
from ZODB.POSException import ReadOnlyError
from ZODB.utils import z64

from indico_zodbrepl.dataplane.client import transactions

from nodes import Node, pickle_of
from processes import PATIENCE, wait_for
from zeo_servers import open_client


@pytest.fixture
def fallen_back(processes, tmpdir):
    """(secondary, client storage on it, transaction begun on the dead primary)."""
    primary = Node(processes, tmpdir, 'a', listens=True)
    secondary = Node(processes, tmpdir, 'b', upstream=primary)
    primary.start()
    secondary.start()
    primary.wait_for_followers()
    storage = open_client([primary, secondary])
    db = DB(storage)
    secondary.wait_for_tid(db.lastTransaction())
    begun = TransactionMetaData()
    storage.tpc_begin(begun)
    primary.process.kill()
    wait_for(lambda: storage.is_connected() and storage.is_read_only(),
             'the fallback')
    yield secondary, db, begun
    db.close()


def write(db):
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    try:
        connection.root()['key'] = 'value'
        manager.commit()
    finally:
        manager.abort()
        connection.close()


def test_a_write_in_that_moment_succeeds_after_the_promotion(
        fallen_back, monkeypatch):
    secondary, db, begun = fallen_back
    db.storage.tpc_abort(begun)
    monkeypatch.setattr(transactions, 'PATIENCE', PATIENCE)
    outcome = []
    writer = threading.Thread(target=lambda: outcome.append(write(db)))
    writer.start()
    time.sleep(0.3)
    assert writer.is_alive()
    assert secondary.control(
        do='promote', epoch=4,
        replicate_to='127.0.0.1:%d' % secondary.replication_port)['ok']
    writer.join(PATIENCE)

    assert [None] == outcome


def test_a_write_in_a_longer_outage_is_refused(fallen_back, monkeypatch):
    _, db, begun = fallen_back
    db.storage.tpc_abort(begun)
    monkeypatch.setattr(transactions, 'PATIENCE', 0.5)
    with pytest.raises(ReadOnlyError):
        write(db)
    monkeypatch.setattr(transactions, 'PATIENCE', PATIENCE)
    db.storage._watchdog.missing_since = time.time() - 2 * PATIENCE
    with pytest.raises(ReadOnlyError):
        write(db)


def test_a_transaction_that_began_before_it_may_be_tried_again(fallen_back):
    _, db, begun = fallen_back
    with pytest.raises(ClientDisconnected):
        db.storage.store(8 * '\1', z64, pickle_of('x'), '', begun)
    with pytest.raises(ClientDisconnected):
        db.storage.tpc_vote(begun)
    db.storage.tpc_abort(begun)
