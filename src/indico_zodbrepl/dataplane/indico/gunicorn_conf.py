"""What gunicorn does beyond its command line: `gunicorn -c python:THIS_MODULE`.

A worker that is to take another one's place builds Indico before it accepts a
request, so that no request has to wait for that.  The only worker of an
instance accepts at once, so that its health can be asked meanwhile.

gunicorn takes the time from the system's clock.  If that is put forward, it would
kill each worker in the middle of its requests as silent for too long.  Here its
timers, and those of its workers, run by the monotonic clock.
"""
from __future__ import absolute_import

import os
import sys

import gunicorn.arbiter
import gunicorn.workers.base
import gunicorn.workers.gthread
from gunicorn.workers.workertmp import WorkerTmp

from indico_zodbrepl.dataplane.programs.clock import MonotonicTime, install, monotonic

# Instructions that a thread carries out before another one may have the
# interpreter.  With Python 2.7's 100 several threads that work at once fight for
# it on all cores: 200 pages asked for four at a time, 67 ms of processor time a
# page; 48 ms with 1000, 39 ms with this, 28 ms one at a time.  It is a millisecond
# at most that one has to wait for another.  Zope calls it python-check-interval.
CHECK_INTERVAL = 20000

BUILD_LIMIT = 60.0  # seconds; below gunicorn's own limit for a silent worker


class Signs(WorkerTmp):
    """The signs of life of a worker, which its master reads about once a second."""

    def __init__(self, cfg):
        WorkerTmp.__init__(self, cfg)
        self._seen, self._seen_at = None, monotonic()

    def last_update(self):
        """Return the moment of `clock.monotonic` at which the master saw the latest sign first."""
        status = os.fstat(self.fileno())
        sign = status.st_ctime, status.st_mode
        if sign != self._seen:
            self._seen, self._seen_at = sign, monotonic()
        return self._seen_at


def use_monotonic_clock():
    """Make all timers of gunicorn in this process, and in the workers it forks, monotonic."""
    install()
    gunicorn.arbiter.time = gunicorn.workers.gthread.time = MonotonicTime
    gunicorn.workers.base.WorkerTmp = Signs


use_monotonic_clock()


def post_worker_init(worker):
    """Called by gunicorn in each new worker, before it accepts requests.

    Args:
        worker: its `wsgi` is an `app.Application`.
    """
    sys.setcheckinterval(CHECK_INTERVAL)
    if _has_sibling(worker.ppid):
        worker.wsgi.build(BUILD_LIMIT)


def _has_sibling(parent):
    with open('/proc/%d/task/%d/children' % (parent, parent)) as children:
        return set(children.read().split()) != set([str(os.getpid())])
