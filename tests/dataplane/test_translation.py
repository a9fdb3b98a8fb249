"""Which errors of storages become errors that Indico tries again."""
from concurrent.futures import CancelledError, TimeoutError

import pytest
from ZEO.Exceptions import ClientDisconnected, ServerException
from ZODB.POSException import ConflictError, POSKeyError, ReadOnlyError

from indico_zodbrepl.dataplane.client.translation import (
    OutcomeUnknown,
    StorageAway,
    translated,
    translated_at_the_end,
    translated_at_the_end_on_zeo,
)


@pytest.mark.parametrize('error', [CancelledError(), TimeoutError('slow')])
def test_a_call_lost_with_the_connection_becomes_a_disconnect(error):
    result = translated(error)
    assert isinstance(result, ClientDisconnected)
    assert isinstance(result, StorageAway)
    assert result.cause is error
    assert type(error).__name__ in str(result)


def test_a_server_that_cannot_write_its_files_counts_as_away():
    error = ServerException('exceptions.IOError', (28, 'No space left on device'))
    result = translated(error)
    assert isinstance(result, StorageAway)
    assert 'No space left on device' in str(result)


def test_another_error_of_a_server_passes_as_it_is():
    error = ServerException('exceptions.ValueError', ('odd',))
    assert translated(error) is error


@pytest.mark.parametrize('error', [
    ClientDisconnected('gone'), ConflictError(), POSKeyError(b'\0' * 8),
    ReadOnlyError(), ValueError('mine'), KeyError('other')])
def test_an_error_that_indico_knows_or_nobody_knows_passes_as_it_is(error):
    assert translated(error) is error


@pytest.mark.parametrize('error', [
    ClientDisconnected('gone'), CancelledError(),
    ServerException('exceptions.IOError', (5, 'Input/output error'))])
def test_a_storage_lost_while_it_saves_may_have_saved(error):
    result = translated_at_the_end(error)
    assert isinstance(result, OutcomeUnknown)
    assert isinstance(result, ClientDisconnected)
    assert result.outcome_unknown


@pytest.mark.parametrize('error', [ConflictError(), ValueError('mine')])
def test_another_error_at_the_end_passes_as_it_is(error):
    assert translated_at_the_end(error) is error


def test_any_surprise_at_the_end_of_a_commit_on_zeo_leaves_it_unknown():
    error = ValueError('new last tid must be greater than previous one')
    assert isinstance(translated_at_the_end_on_zeo(error), OutcomeUnknown)


@pytest.mark.parametrize('error', [ConflictError(), ReadOnlyError()])
def test_a_refusal_at_the_end_of_a_commit_on_zeo_passes_as_it_is(error):
    assert translated_at_the_end_on_zeo(error) is error
