"""How uploaded files go through an Indico: in pieces, by the kernel, and whole."""
import functools
import json
import threading
import time

import pytest

from processes import Processes, wait_for
from uploading import Hosts

LARGE = 200 << 20
MOST_MEMORY = 60 << 20  # bytes that a request for a large file may take


@pytest.fixture(scope='module')
def hosts(tmpdir_factory, htdocs, filled):
    folder = tmpdir_factory.mktemp('hosts')
    processes = Processes(folder)
    try:
        yield Hosts(processes, folder, htdocs, filled[0])
    finally:
        processes.close()


@pytest.fixture
def user(hosts):
    return hosts.user()


def large_body(path, fields, boundary):
    """Writes the body of a form with a file of LARGE bytes; returns it as an open file."""
    with open(path, 'wb') as body:
        for field in fields.items():
            body.write('--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % ((boundary,) + field))
        body.write('--%s\r\nContent-Disposition: form-data; name="file"; filename="large.dat"\r\n'
                   'Content-Type: application/octet-stream\r\n\r\n' % boundary)
        for piece in pieces():
            body.write(piece)
        body.write('\r\n--%s--\r\n' % boundary)
    return open(path, 'rb')


def pieces():
    """The content of a large file, of which no two pieces are equal."""
    for number in range(LARGE >> 20):
        yield ('%01023d\n' % number) * 1024


def worker_of(site):
    return site.health()[1]['pid']


def peak(pid):
    with open('/proc/%d/status' % pid) as status:
        (line,) = [each for each in status if each.startswith('VmHWM')]
    return int(line.split()[1]) << 10


def reset_peak(pid):
    with open('/proc/%d/clear_refs' % pid, 'w') as refs:
        refs.write('5')


def test_a_large_file_is_never_in_memory(hosts, user, tmpdir):
    for each in (user, user.at(hosts.two)):
        each.get(user.add_material('/event/0', 'small.dat', 'x' * 1000))
    pids = [worker_of(site) for site in (hosts.one, hosts.two)] + [hosts.node.process.pid]
    for pid in pids:
        reset_peak(pid)
    before = map(peak, pids)
    path = user.send_material('/event/0', functools.partial(large_body, str(tmpdir.join('body'))))
    answer = user.at(hosts.two).get(path, stream=True)
    assert str(LARGE) == answer.headers['Content-Length']
    received = answer.iter_content(1 << 20)
    assert all(piece == next(received) for piece in pieces())
    grown = [after - first for after, first in zip(map(peak, pids), before)]
    print('peak memory of the instances and the server, MB: %s' % [each >> 20 for each in grown])
    assert max(grown) < MOST_MEMORY


def test_a_server_keeps_no_large_file_for_a_client_that_does_not_take_it(hosts, user, tmpdir):
    path = user.send_material('/event/0', functools.partial(large_body, str(tmpdir.join('body'))))
    other, answers = user.at(hosts.two), []
    hosts.evict()
    reset_peak(hosts.node.process.pid)
    before = peak(hosts.node.process.pid)
    thread = threading.Thread(target=lambda: answers.append(len(other.get(path).content)))
    thread.start()
    wait_for(lambda: list(hosts.two.cache.visit('*.dl')), 'the beginning of the transfer')
    hosts.two.process.pause()
    time.sleep(1)
    grown = peak(hosts.node.process.pid) - before
    hosts.two.process.resume()
    thread.join()
    assert [LARGE] == answers
    assert grown < MOST_MEMORY


def test_a_server_that_is_killed_while_it_sends_a_file_costs_no_byte_of_it(hosts, user, tmpdir):
    path = user.send_material('/event/0', functools.partial(large_body, str(tmpdir.join('body'))))
    other, answers = user.at(hosts.two), []
    hosts.evict()

    def is_whole(answer):
        return answer.status_code == 200 and all(
            piece == received for piece, received in zip(pieces(), answer.iter_content(1 << 20)))

    def fetch():
        answer = other.get(path, stream=True)
        answers.append((answer.status_code, answer.headers.get('Retry-After'), is_whole(answer)))
    thread = threading.Thread(target=fetch)
    thread.start()
    wait_for(lambda: list(hosts.two.cache.visit('*.dl')), 'the beginning of the transfer')
    hosts.node.process.kill()
    hosts.node.start()
    thread.join()
    assert answers[0] in [(200, None, True), (503, '5', False)]
    hosts.two.wait_for_page()
    assert is_whole(other.get(path, stream=True))


def test_the_web_server_gets_the_file_itself_and_sends_it(hosts, user):
    """So that gunicorn uses sendfile, and no byte goes through Python."""
    path = user.add_material('/event/2', 'a talk.pdf', 'x' * 5000)
    told = json.loads(hosts.script('file_wrapper.py', '/indico' + path, user.cookie))
    assert ['200 OK', True, 5000] == told
