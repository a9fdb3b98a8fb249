"""The gunicorn settings beyond its command line: `gunicorn -c python:THIS_MODULE`.

A worker that finds an older one builds Indico before it accepts a request, so
that no request has to wait for that.  The oldest worker of an instance accepts
requests at once, so that its health check answers meanwhile.

gunicorn uses the system clock.  If that is set forward, gunicorn would take
each worker for hung and kill it during its requests.  Here its timers, and
those of its workers, use the monotonic clock.
"""
from __future__ import absolute_import

import os
import sys

import gunicorn.arbiter
import gunicorn.workers.base
import gunicorn.workers.gthread
from gunicorn.workers.workertmp import WorkerTmp

from indico_zodbrepl.dataplane.programs.clock import MonotonicTime, install, monotonic

# Instructions that a thread executes before another one may run.  With Python 2.7's default of
# 100, concurrent threads fight for the interpreter lock on all cores: 200 pages asked for four at
# a time, 67 ms of processor time a page; 48 ms with 1000, 39 ms with this, 28 ms one at a time.
# A thread waits for another one for a millisecond at most.  Zope calls it
# python-check-interval.
CHECK_INTERVAL = 20000

BUILD_LIMIT = 60.0  # seconds; below gunicorn's own limit for a silent worker


class Signs(WorkerTmp):
    """The heartbeats of a worker, which its master reads about once a second."""

    def __init__(self, cfg):
        WorkerTmp.__init__(self, cfg)
        self._seen, self._seen_at = None, monotonic()

    def last_update(self):
        """Return the time of `clock.monotonic` when the master first saw the latest heartbeat."""
        status = os.fstat(self.fileno())
        sign = status.st_ctime, status.st_mode
        if sign != self._seen:
            self._seen, self._seen_at = sign, monotonic()
        return self._seen_at


def use_monotonic_clock():
    """Make gunicorn's timers in this process, and in the workers it forks, monotonic."""
    install()
    gunicorn.arbiter.time = gunicorn.workers.gthread.time = MonotonicTime
    gunicorn.workers.base.WorkerTmp = Signs


use_monotonic_clock()


def post_worker_init(worker):
    """Build Indico, if needed, when gunicorn has started a worker, before its first request.

    Args:
        worker: its `wsgi` is an `app.Application`.
    """
    sys.setcheckinterval(CHECK_INTERVAL)
    if not _is_oldest(worker.ppid):
        worker.wsgi.build(BUILD_LIMIT)


def _is_oldest(parent):
    with open('/proc/%d/task/%d/children' % (parent, parent)) as children:
        workers = children.read().split()
    own = _age(os.getpid())
    return all(_age(pid) >= own for pid in workers)


def _age(pid):
    """Return what sorts processes by their start; one that has ended sorts last."""
    try:
        with open('/proc/%s/stat' % pid) as stat:
            # the 22nd field, proc(5); the second, in parentheses, may hold blanks
            return int(stat.read().rpartition(')')[2].split()[19]), int(pid)
    except IOError:
        return float('inf'), int(pid)
