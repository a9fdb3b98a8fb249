"""What gunicorn does beyond its command line: `gunicorn -c python:THIS_MODULE`.

A worker that is to take another one's place builds Indico before it accepts a
request, so that no request has to wait for that.  The only worker of an
instance accepts at once, so that its health can be asked meanwhile.
"""
from __future__ import absolute_import

import os
import sys

# Instructions that a thread carries out before another one may have the
# interpreter.  With Python 2.7's 100 several threads that work at once fight for
# it on all cores: 200 pages asked for four at a time, 67 ms of processor time a
# page; 48 ms with 1000, 39 ms with this, 28 ms one at a time.  It is a millisecond
# at most that one has to wait for another.  Zope calls it python-check-interval.
CHECK_INTERVAL = 20000

BUILD_LIMIT = 60.0  # seconds; below gunicorn's own limit for a silent worker


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
