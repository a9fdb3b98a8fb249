"""Which connections of a NEO client are given up as silent."""
import itertools
import threading

import pytest

from indico_zodbrepl.dataplane.neo import liveness as module
from indico_zodbrepl.dataplane.neo.client import NEOClient
from indico_zodbrepl.dataplane.neo.liveness import Liveness

LOOKS = 4


class Connection(object):
    """Answers what the test says; it stands for its own handlers, too."""

    connecting = False

    def __init__(self):
        self._handlers = self
        self.requests = {}
        self._pending = [(self.requests, None)]
        self._ids = itertools.count(1)
        self.closed = False

    def ask(self, packet):
        number = next(self._ids)
        self.requests[number] = packet
        return number

    def answer(self):
        """Answers what was asked first."""
        del self.requests[min(self.requests)]

    def getAddress(self):
        return ('127.0.0.1', 1)

    def close(self):
        self.closed = True


class Pinger(object):

    state = None

    def __init__(self, address):
        pass

    def start(self):
        pass

    close = start


class Application(object):
    """One without connections, whose thread ends a moment after it is told to."""

    name = 'test'
    master_conn = em = None

    def __init__(self):
        self.end = threading.Event()
        self.poll_thread = threading.Thread(target=self.end.wait)
        self.poll_thread.start()

    def close(self):
        threading.Timer(0.2, self.end.set).start()


@pytest.fixture
def connection():
    return Connection()


@pytest.fixture
def look(connection, monkeypatch):
    """Looks once at the connection, as the thread does."""
    monkeypatch.setattr(Liveness, '_run', lambda self: None)
    monkeypatch.setattr(module, 'Pinger', Pinger)
    liveness = Liveness(Application(), LOOKS * module.INTERVAL)
    liveness._app.end.set()
    yield lambda: liveness._look(connection)
    liveness.close()


def test_a_server_that_answers_nothing_is_given_up(look, connection):
    for _ in range(LOOKS):
        look()
        assert not connection.closed
    look()
    assert connection.closed


def test_a_server_that_answers_pings_is_left_alone_whatever_it_owes(look, connection):
    """It waits for a lock."""
    owed = connection.ask('store')
    for _ in range(10 * LOOKS):
        look()
        del connection.requests[max(connection.requests)]
    assert [owed] == list(connection.requests)
    assert not connection.closed


def test_a_server_that_is_busy_with_what_came_before_the_ping_is_left_alone(look, connection):
    for _ in range(10):
        connection.ask('store')
    for _ in range(10):
        look()
        connection.answer()
        for _ in range(LOOKS - 1):
            look()
    assert not connection.closed
    assert 1 == len(connection.requests)  # one ping, not one for each look


def test_new_questions_are_no_sign_of_life(look, connection):
    for _ in range(LOOKS + 1):
        look()
        connection.ask('store')
    assert connection.closed


class QuickApplication(Application):
    """One whose thread ends at once; NEO's then takes away all its attributes."""

    def close(self):
        self.end.set()
        self.poll_thread.join()
        self.__dict__.clear()


@pytest.mark.parametrize('kind', [Application, QuickApplication])
def test_the_thread_of_neo_has_ended_when_its_storage_is_closed(monkeypatch, kind):
    storage = NEOClient.__new__(NEOClient)
    storage.app = app = kind()
    thread = app.poll_thread
    monkeypatch.setattr(Liveness, '_run', lambda self: None)
    storage._liveness = Liveness(app)
    storage.close()
    assert not thread.isAlive()
