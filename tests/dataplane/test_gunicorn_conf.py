"""What a new worker does before it accepts requests."""
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from indico_zodbrepl.dataplane.indico import gunicorn_conf

from changed_clock import ChangedClock
from processes import free_ports, wait_for


class Worker(object):
    """Stands for gunicorn's: it notes how long it is told to build its application."""

    def __init__(self, ppid):
        self.ppid = ppid
        self.wsgi = self
        self.built = []

    def build(self, limit):
        self.built.append(limit)


@pytest.fixture
def parent():
    """Another process, without children."""
    process = subprocess.Popen(['sleep', '60'])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture(autouse=True)
def check_interval():
    before = sys.getcheckinterval()
    yield
    sys.setcheckinterval(before)


def parent_of_our_parent():
    """A process with a child that is older than this one."""
    with open('/proc/%d/stat' % os.getppid()) as stat:
        return int(stat.read().rpartition(')')[2].split()[1])


def test_threads_of_a_worker_do_not_fight_for_the_interpreter(parent):
    gunicorn_conf.post_worker_init(Worker(parent))
    assert gunicorn_conf.CHECK_INTERVAL == sys.getcheckinterval() > 1000


def test_a_worker_that_finds_an_older_one_builds_indico_first():
    worker = Worker(parent_of_our_parent())
    gunicorn_conf.post_worker_init(worker)
    assert [gunicorn_conf.BUILD_LIMIT] == worker.built


def test_the_oldest_worker_accepts_requests_at_once():
    younger = subprocess.Popen(['sleep', '60'])
    worker = Worker(os.getpid())
    try:
        gunicorn_conf.post_worker_init(worker)
    finally:
        younger.kill()
        younger.wait()
    assert [] == worker.built


def test_no_worker_is_killed_when_the_clock_is_put_forward(processes, tmpdir):
    """By the system's clock it would have been silent for an hour."""
    clock = ChangedClock(tmpdir.join('clock'))
    tmpdir.join('idle.py').write(IDLE)
    port, = free_ports(1)
    master = processes.start(
        ['python', '-m', 'gunicorn.app.wsgiapp', '--config',
         'python:indico_zodbrepl.dataplane.indico.gunicorn_conf', '--bind', '127.0.0.1:%d' % port,
         '--worker-class',
         'indico_zodbrepl.dataplane.indico.worker.DrainingWorker', '--chdir', str(tmpdir), 'idle:application'],
        'gunicorn', port, clock.environment)
    clock.put(3600)
    time.sleep(3)  # the master looks each second
    assert 'TIMEOUT' not in master.output()


IDLE = '''
def application(environ, start_response):
    start_response('204 No Content', [])
    return []
'''


@pytest.mark.parametrize('limit, answer', [(30, 'HTTP/1.1 200 OK'), (2, '')])
def test_a_worker_that_ends_answers_first_but_does_not_wait_for_ever(
        processes, tmpdir, limit, answer):
    """An idle connection is closed at once, as nobody would read from it again."""
    tmpdir.join('slow.py').write(SLOW)
    port, = free_ports(1)
    master = processes.start(
        ['python', '-m', 'gunicorn.app.wsgiapp', '--config',
         'python:indico_zodbrepl.dataplane.indico.gunicorn_conf', '--bind', '127.0.0.1:%d' % port,
         '--worker-class', 'indico_zodbrepl.dataplane.indico.worker.DrainingWorker',
         '--threads', '2', '--keep-alive', '60', '--graceful-timeout', '1',
         '--chdir', str(tmpdir), 'slow:application'],
        'gunicorn', port, {'ZODBREPL_DRAIN_SECONDS': str(limit)})
    idle, slow = [socket.create_connection(('127.0.0.1', port), 30) for _ in range(2)]
    idle.sendall('GET / HTTP/1.1\r\nHost: here\r\n\r\n')
    answered = idle.makefile('rb')
    while answered.readline().strip():
        pass
    assert 'ok' == answered.read(2)
    slow.sendall('GET /slow HTTP/1.1\r\nHost: here\r\n\r\n')
    time.sleep(0.5)
    with open('/proc/%d/task/%d/children' % (master.pid, master.pid)) as children:
        worker = int(children.read())
    os.kill(worker, signal.SIGTERM)
    assert '' == answered.read()
    assert answer == slow.makefile('rb').readline().strip()
    wait_for(lambda: not os.path.exists('/proc/%d' % worker), 'the end of the worker', 10)


SLOW = '''
import time

def application(environ, start_response):
    if environ['PATH_INFO'] == '/slow':
        time.sleep(5)
    start_response('200 OK', [('Content-Length', '2')])
    return ['ok']
'''
