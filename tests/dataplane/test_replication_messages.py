"""Messages come out of a stream as they were put in, however it is cut."""
import random

import pytest
import zc.zrs.sizedmessage

from indico_zodbrepl.dataplane.zrs.links import Stream


def messages(chance):
    sizes = [0, 1, 3, 4, 5, 200, 70000]
    return [chance.choice(sizes) * chance.choice('abc') for _ in range(40)]


@pytest.mark.parametrize('seed', range(20))
def test_messages_arrive_however_they_are_cut(seed):
    chance = random.Random(seed)
    sent = messages(chance)
    data = ''.join(map(zc.zrs.sizedmessage.marshal, sent))
    received, by_zrs = [], []
    streams = Stream(received.append), zc.zrs.sizedmessage.Stream(by_zrs.append)
    while data:
        size = chance.choice([1, 2, 5, 1000, 65536])
        for stream in streams:
            stream(data[:size])
        data = data[size:]
        assert by_zrs == received
    assert sent == received


@pytest.mark.parametrize('kind', [Stream, zc.zrs.sizedmessage.Stream])
def test_a_message_above_the_limit_is_refused_before_it_is_there(kind):
    received = []
    stream = kind(received.append, 8)
    stream(zc.zrs.sizedmessage.marshal('12345678'))
    with pytest.raises(zc.zrs.sizedmessage.LimitExceeded):
        stream('\0\0\0\x09')
    assert ['12345678'] == received


def test_an_error_of_the_receiver_takes_no_message_twice():
    received = []

    def receive(message):
        received.append(message)
        if message == 'bad':
            raise ValueError(message)
    stream = Stream(receive)
    with pytest.raises(ValueError):
        stream(''.join(map(zc.zrs.sizedmessage.marshal, ['good', 'bad', 'last'])))
    stream('')
    assert ['good', 'bad', 'last'] == received
