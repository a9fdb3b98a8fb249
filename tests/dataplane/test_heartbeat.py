"""When a server counts as silent: a decision, tried without servers."""
import pytest

from indico_zodbrepl.dataplane.client.reconnection import Heartbeat

LIMIT = 3


class Ping(object):
    answered = False

    def done(self):
        return self.answered


class Transport(object):
    unsent = 0
    aborted = False

    def get_write_buffer_size(self):
        return self.unsent

    def abort(self):
        self.aborted = True


class Stream(object):
    received_count = 0

    def __init__(self):
        self.transport = Transport()


class Connection(object):
    addr = '127.0.0.1', 1
    closed = False

    def __init__(self):
        self.pings = []
        self.sm_protocol = Stream()

    def server_call(self, method):
        assert 'ping' == method
        self.pings.append(Ping())
        return self.pings[-1]

    def close(self, error):
        self.closed = True


class Client(object):
    operational = True

    def __init__(self):
        self.protocol = Connection()
        self.lost = []

    def disconnected(self, protocol):
        self.lost.append(protocol)
        self.protocol = None
        self.operational = False


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def pulse(client):
    return Heartbeat(client, LIMIT)


def test_a_server_that_answers_is_asked_again_and_again(client, pulse):
    for _ in range(3 * LIMIT):
        pulse.look()
        client.protocol.pings[-1].answered = True
    assert 3 * LIMIT == len(client.protocol.pings)
    assert 0 == pulse.silent
    assert [] == client.lost


def test_a_silent_server_is_given_up_at_the_limit_and_not_before(client, pulse):
    connection = client.protocol
    for number in range(LIMIT):
        pulse.look()
        assert number == pulse.silent
    assert [] == client.lost
    pulse.look()
    assert [connection] == client.lost
    assert connection.closed
    assert connection.sm_protocol.transport.aborted
    assert 1 == len(connection.pings)


def test_an_answer_restarts_the_count(client, pulse):
    for _ in range(LIMIT):
        pulse.look()
    client.protocol.pings[-1].answered = True
    for _ in range(LIMIT):
        pulse.look()
    assert [] == client.lost


def test_a_long_message_to_the_server_that_goes_on_is_a_sign_of_life(
        client, pulse):
    for number in range(3 * LIMIT):
        client.protocol.sm_protocol.transport.unsent = 1000000 - number
        pulse.look()
    assert [] == client.lost


def test_a_long_message_from_the_server_that_goes_on_is_a_sign_of_life(
        client, pulse):
    for number in range(3 * LIMIT):
        client.protocol.sm_protocol.received_count = number
        pulse.look()
    assert [] == client.lost


def test_a_message_that_gets_stuck_is_none(client, pulse):
    connection = client.protocol
    connection.sm_protocol.transport.unsent = 1000000
    for _ in range(LIMIT + 1):
        pulse.look()
    assert [connection] == client.lost


def test_another_connection_is_counted_from_its_beginning(client, pulse):
    for _ in range(LIMIT):
        pulse.look()
    client.protocol = Connection()
    for _ in range(LIMIT):
        pulse.look()
    assert [] == client.lost


def test_a_client_that_has_no_server_asks_none(client, pulse):
    client.operational = False
    for _ in range(2 * LIMIT):
        pulse.look()
    assert [] == client.protocol.pings + client.lost
