"""What a new worker does before it accepts requests."""
import subprocess
import sys

import pytest

from indico_zodbrepl.dataplane.indico import gunicorn_conf


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


def test_threads_of_a_worker_do_not_fight_for_the_interpreter(parent):
    gunicorn_conf.post_worker_init(Worker(parent))
    assert gunicorn_conf.CHECK_INTERVAL == sys.getcheckinterval() > 1000


def test_a_worker_that_takes_the_place_of_another_builds_indico_first(parent):
    worker = Worker(parent)
    gunicorn_conf.post_worker_init(worker)
    assert [gunicorn_conf.BUILD_LIMIT] == worker.built

