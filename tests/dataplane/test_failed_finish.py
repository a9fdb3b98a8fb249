"""A disk that can't synchronise a transaction: the server ends, and a new one has what is there."""
import pytest
from nodes import Node, commit, pickle_of
from slow_disks import start_failing

from indico_zodbrepl.dataplane.server.main import FINISH_FAILED


DATA = pickle_of('text')


@pytest.fixture
def mark(tmpdir):
    return tmpdir.join('failing')


def test_a_secondary_ends_and_catches_up_when_it_is_started_again(processes, tmpdir, mark):
    primary = Node(processes, tmpdir, 'p', listens=True)
    primary.start()
    secondary = Node(processes, tmpdir, 's', upstream=primary)
    start_failing(processes, secondary, mark)
    primary.wait_for_followers()
    client = primary.client()
    _, first = commit(client, DATA)
    secondary.wait_for_tid(first)
    mark.write('')
    _, last = commit(client, DATA)
    assert secondary.process.wait() == FINISH_FAILED
    mark.remove()
    secondary.start()
    secondary.wait_for_tid(last)
    assert secondary.bytes() == primary.bytes()


def test_a_primary_ends_without_an_acknowledgement(processes, tmpdir, mark):
    primary = Node(processes, tmpdir, 'p', listens=True)
    start_failing(processes, primary, mark)
    client = primary.client(patience=1)
    _, first = commit(client, DATA)
    mark.write('')
    with pytest.raises(Exception):
        commit(client, DATA)
    assert primary.process.wait() == FINISH_FAILED
    mark.remove()
    primary.start()
    assert first in primary.tids()
    commit(primary.client(), DATA)
