"""Which errors of NEO's client become errors that Indico tries again, or answers as unknown."""
import pytest
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, POSKeyError, ReadConflictError, StorageError

from indico_zodbrepl.dataplane.neo.errors import PackRefused
from indico_zodbrepl.dataplane.neo.library import import_neo
from indico_zodbrepl.dataplane.client.translation import (
    OutcomeUnknown,
    StorageAway,
    translated,
    translated_at_the_end,
)

import_neo()

from neo.client import exception  # noqa: E402
from neo.lib.connection import ConnectionClosed  # noqa: E402
from neo.lib.exception import NodeNotReady  # noqa: E402

UNKNOWN = 'protocol error: unknown ttid 040d2af9'


@pytest.mark.parametrize('error', [
    exception.NEOStorageError('no storage available'),
    exception.NEOStorageReadRetry(True),
    exception.NEOPrimaryMasterLost(),
    ConnectionClosed(),
    NodeNotReady('retry later'),
    StorageError(UNKNOWN),
    AttributeError("'Application' object has no attribute 'pt'"),
    AttributeError("'LimitedApplication' object has no attribute 'pt'"),
])
def test_a_cluster_that_is_away_is_one_that_indico_tries_again(error):
    """None of these is a disconnection to Indico by itself, and one would be a conflict."""
    assert not isinstance(error, ClientDisconnected)
    result = translated(error)
    assert isinstance(result, StorageAway)
    assert result.cause is error


@pytest.mark.parametrize('error', [
    exception.NEOStorageNotFoundError('no such object'),
    exception.NEOStorageCreationUndoneError('undone'),
    exception.NEOStorageError('Already packing'),
    StorageError('protocol error: something else'),
    PackRefused('a copy is missing'),
    ConflictError(), ReadConflictError(), POSKeyError(b'\0' * 8),
    AttributeError("'Application' object has no attribute 'color'"),
])
def test_another_error_passes_as_it_is(error):
    assert translated(error) is error


@pytest.mark.parametrize('error', [
    ConnectionClosed(), exception.NEOStorageError('no storage available')])
def test_a_connection_lost_at_the_end_of_a_commit_leaves_it_unknown(error):
    assert isinstance(translated_at_the_end(error), OutcomeUnknown)


@pytest.mark.parametrize('error', [
    exception.NEOPrimaryMasterLost(), StorageError(UNKNOWN)])
def test_a_commit_that_nobody_was_asked_to_save_may_be_tried_again(error):
    result = translated_at_the_end(error)
    assert isinstance(result, StorageAway)
    assert not isinstance(result, OutcomeUnknown)
