"""When a server counts as silent: a decision, tried without servers."""
import json
import os

import pytest

from indico_zodbrepl.dataplane.client.reconnection import EpochRecord, Heartbeat

LIMIT = 6
FORMER_LIMIT = 2


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
def record(tmpdir):
    path = tmpdir.join('epoch.json')
    raise_to(path, 1)
    return path


@pytest.fixture
def pulse(client, record):
    return Heartbeat(client, LIMIT, FORMER_LIMIT, EpochRecord(str(record)))


def raise_to(path, epoch):
    """Write a record as the agent does; each has a time of its own."""
    path.write(json.dumps({'epoch': epoch, 'primary': 'b'}))
    os.utime(str(path), (epoch, epoch))


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


def test_a_silent_server_of_an_earlier_epoch_is_given_up_sooner(client, pulse, record):
    connection = client.protocol
    pulse.look()
    raise_to(record, 2)
    for _ in range(FORMER_LIMIT - 1):
        pulse.look()
    assert [] == client.lost
    pulse.look()
    assert [connection] == client.lost


def test_one_that_has_long_been_silent_is_given_up_when_the_epoch_begins(client, pulse, record):
    connection = client.protocol
    for _ in range(LIMIT):
        pulse.look()
    assert [] == client.lost
    raise_to(record, 2)
    pulse.look()
    assert [connection] == client.lost


def test_a_server_of_an_earlier_epoch_that_answers_is_kept(client, pulse, record):
    raise_to(record, 2)
    for _ in range(3 * LIMIT):
        pulse.look()
        client.protocol.pings[-1].answered = True
    assert [] == client.lost


def test_the_server_that_is_connected_later_has_the_full_time(client, pulse, record):
    raise_to(record, 2)
    pulse.look()
    client.protocol = Connection()
    for _ in range(LIMIT):
        pulse.look()
    assert [] == client.lost


def test_a_record_that_is_missing_or_garbled_hastens_nothing(client, record):
    record.write('{')
    for path in (None, str(record), str(record) + '.missing'):
        pulse = Heartbeat(client, LIMIT, FORMER_LIMIT, EpochRecord(path))
        for _ in range(LIMIT):
            pulse.look()
        assert [] == client.lost
