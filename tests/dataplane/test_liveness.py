"""How a storage is known to be, although nobody waits for it."""
import contextlib
import logging
import threading

import pytest
from relstorage.adapters.interfaces import ReplicaClosedException

from indico_zodbrepl.dataplane.client.liveness import Liveness, Sight
from indico_zodbrepl.dataplane.client.storage_calls import StorageCalls

from processes import wait_for

SEEN = Sight('127.0.0.1:1', False, b'\0' * 7 + b'\1')


class View(object):
    """Shows what the test says."""

    def __init__(self):
        self.sight, self.failure = SEEN, None
        self.hangs = threading.Event()
        self.replaced = False
        self.looks = self.cuts = self.closed = self.elsewhere = 0

    def look(self):
        self.looks += 1
        if self.hangs.is_set():
            wait_for(lambda: not self.hangs.is_set(), 'the cut')
            raise IOError('cut')
        if self.failure is not None:
            raise self.failure
        return self.sight

    def cut(self):
        self.cuts += 1
        self.hangs.clear()

    def read_elsewhere(self):
        self.elsewhere += 1

    def cut_replaced(self):
        if self.replaced:
            self.hangs.clear()

    def close(self):
        self.closed += 1


@pytest.fixture
def view():
    return View()


class QuickLiveness(Liveness):

    interval = 0.02
    limit = 0.2


class Patient(QuickLiveness):

    limit = 1000


@pytest.fixture
def liveness(view):
    liveness = QuickLiveness(view, 'the storage')
    yield liveness
    liveness.close()


def test_it_tells_what_was_seen_last(liveness, view):
    wait_for(lambda: liveness.sight == SEEN, 'the first look')
    view.sight = SEEN._replace(read_only=True)
    wait_for(lambda: liveness.sight.read_only, 'the next look')
    assert liveness.connected


def test_it_knows_since_when_the_storage_takes_no_writes(liveness, view):
    assert liveness.read_only_since is None
    view.sight = SEEN._replace(read_only=True)
    since = wait_for(lambda: liveness.read_only_since, 'the next look')
    looks = view.looks
    wait_for(lambda: view.looks > looks + 3, 'further looks')
    assert since == liveness.read_only_since
    view.sight = SEEN
    wait_for(lambda: liveness.read_only_since is None, 'a writable storage')


@pytest.mark.parametrize('failure', [
    IOError('no such file'), ReplicaClosedException('gone'), ValueError('odd')])
def test_a_look_that_fails_is_no_connection(liveness, view, caplog, failure):
    wait_for(lambda: liveness.sight == SEEN, 'the first look')
    with caplog.at_level(logging.WARNING):
        view.failure = failure
        wait_for(lambda: not liveness.connected, 'the failure')
        assert SEEN._replace(server=None) == liveness.sight
        looks = view.looks
        wait_for(lambda: view.looks > looks + 3, 'further looks')
        view.failure = None
        wait_for(lambda: liveness.connected, 'a look that succeeds')
    messages = [each.getMessage() for each in caplog.records]
    assert 2 == len(messages)
    assert str(failure) in messages[0]


def test_a_look_that_hangs_is_no_connection_and_is_cut(liveness, view):
    wait_for(lambda: liveness.sight == SEEN, 'the first look')
    view.hangs.set()
    wait_for(lambda: view.cuts, 'the cut')
    wait_for(lambda: liveness.connected, 'a look that succeeds')
    assert not view.hangs.is_set()


def test_a_look_at_a_replaced_server_ends_long_before_the_limit(view):
    liveness = Patient(view, 'the storage')
    view.hangs.set()
    looks = view.looks
    wait_for(lambda: view.looks > looks, 'a look that hangs')
    view.replaced = True
    wait_for(lambda: view.looks > looks + 1, 'another look')
    liveness.close()
    assert view.cuts == 0


def test_who_waits_for_a_silent_server_reads_from_another_one_long_before_the_limit(view):
    calls = StorageCalls()
    with contextlib.closing(Patient(view, 'the storage', calls)):
        calls.begin()
        wait_for(lambda: view.looks > 3, 'looks that succeed')
        assert view.elsewhere == 0
        view.hangs.set()
        wait_for(lambda: view.elsewhere, 'the end of the silence')
        looks = view.looks
        view.hangs.clear()
        wait_for(lambda: view.looks > looks + 3, 'further looks')
        assert (1, 0) == (view.elsewhere, view.cuts)


def test_a_server_is_left_to_itself_while_nobody_waits_for_it(view):
    calls = StorageCalls()
    with contextlib.closing(Patient(view, 'the storage', calls)) as liveness:
        view.hangs.set()
        looks = view.looks
        wait_for(lambda: view.looks > looks, 'a look that hangs')
        wait_for(lambda: liveness._silent > 3, 'a silent server')
        assert view.elsewhere == 0
        calls.begin()
        wait_for(lambda: view.elsewhere, 'the end of the silence')


def test_closing_it_ends_its_threads_even_while_a_look_hangs(view):
    liveness = Patient(view, 'the storage')
    view.hangs.set()
    looks = view.looks
    wait_for(lambda: view.looks > looks, 'a look that hangs')
    liveness.close()
    assert (1, 1) == (view.cuts, view.closed)
    assert not [each for each in threading.enumerate()
                if 'the storage' in each.name]
