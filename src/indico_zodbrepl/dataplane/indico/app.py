"""The WSGI application of an Indico instance: `application`.

    gunicorn --workers 1 --worker-class gthread --threads 4 \\
        indico_zodbrepl.dataplane.indico.app:application
    waitress-serve --threads=4 indico_zodbrepl.dataplane.indico.app:application

For mod_wsgi the script file is one line (with WSGIApplicationGroup %{GLOBAL}):

    from indico_zodbrepl.dataplane.indico.app import application

Environment: INDICO_CONF, the path of indico.conf; ZODBREPL_INSTANCE, the name
shown in the health report, and ZODBREPL_WORKERS, the number shown there; ZODBREPL_EPOCH_RECORD, the path of this host's
record of the current epoch, may be missing.  One process with threads, or
several processes; never fork a process that has answered a request.

  /zodbrepl/health  the state of this process and its storage, as JSON; 200 when
                    connected, else 503; never waits for storage or Indico.
  /indico           Indico 1.2, or wherever its BaseURL says; built when the
                    first request of either kind comes.  While it is being built or the storage is
                    away a few requests wait a little and the others get 503 with Retry-After at
                    once, so that a thread is left for health.
"""
from __future__ import absolute_import

import json
import os
import threading
import time
from contextlib import contextmanager

from ZEO.Exceptions import ClientDisconnected

from indico_zodbrepl import __version__
from indico_zodbrepl.dataplane.client.status import (
    NO_STORAGE,
    is_connected,
    recorded_epoch,
    storage_status,
)
from indico_zodbrepl.dataplane.indico.instance import IndicoInstance, NotSetUp
from indico_zodbrepl.dataplane.programs.clock import monotonic

WORKERS = int(os.environ.get('ZODBREPL_WORKERS', 1))  # processes that answer for this instance
HEALTH_PATH = '/zodbrepl/health'
MAY_WAIT = 2  # requests at once
BUILD_PATIENCE = 60.0  # seconds
RECONNECT_PATIENCE = 2.0  # seconds
RETRY_AFTER = 5  # seconds


class Application(object):
    """Health report, and Indico behind a gate.

    Args:
        instance: an IndicoInstance.
        name: the instance's name, for the health report.
        epoch_record: path of the record of the current epoch, or None.
    """

    def __init__(self, instance, name, epoch_record=None):
        self._instance = instance
        self._name = name
        self._epoch_record = epoch_record
        self._waiting = threading.BoundedSemaphore(MAY_WAIT)
        self._answered = Answers()

    def build(self, limit):
        """Start to build Indico; wait up to `limit` seconds for success or failure."""
        self._instance.want().wait(limit)

    def __call__(self, environ, start_response):
        attempt = self._instance.want()
        if environ.get('PATH_INFO') == HEALTH_PATH:
            return self._health(start_response)
        with self._answered.counting(start_response) as start_response:
            return self._indico(attempt, environ, start_response)

    def _indico(self, attempt, environ, start_response):
        if not attempt.is_set():
            self._wait(attempt.is_set, BUILD_PATIENCE)
        indico = self._instance.application
        if indico is None:
            return self._not_built(start_response)
        if not (self._connected() or
                self._wait(self._connected, RECONNECT_PATIENCE)):
            return _unavailable(
                start_response, 'The database is out of reach at the moment.')
        return indico(environ, start_response)

    def _health(self, start_response):
        db = self._instance.db
        report = dict(NO_STORAGE if db is None else storage_status(db))
        report.update(recorded_epoch(self._epoch_record))
        report.update(
            instance=self._name, pid=os.getpid(), workers=WORKERS, release=__version__,
            **self._building())
        report.update(self._answered.figures())
        if self._instance.uploaded is not None:
            report.update(self._instance.uploaded.report())
        return _answer(
            start_response,
            '200 OK' if report['connected'] else '503 Service Unavailable',
            json.dumps(report, sort_keys=True), 'application/json')

    def _building(self):
        """Return True if pages are served, and the reason if not."""
        built, failure = self._instance.application is not None, self._instance.failure
        if built or isinstance(failure, ClientDisconnected):
            failure = None
        return {
            'built': built,
            'set_up': not isinstance(failure, NotSetUp),
            'failure': failure and '%s: %s' % (type(failure).__name__, failure)}

    def _not_built(self, start_response):
        failure = self._instance.failure
        if isinstance(failure, NotSetUp):
            return _unavailable(start_response, 'Not set up: %s.' % failure)
        if failure is None or isinstance(failure, ClientDisconnected):
            return _unavailable(start_response, 'Indico is starting.')
        raise failure

    def _connected(self):
        return is_connected(self._instance.db)

    def _wait(self, condition, seconds):
        """Wait for `condition()`, unless too many others wait; return its last value."""
        if not self._waiting.acquire(False):
            return False
        try:
            deadline = monotonic() + seconds
            while not condition() and monotonic() < deadline:
                time.sleep(0.05)
            return condition()
        finally:
            self._waiting.release()


class Answers(object):
    """Counts the answers of this process, without those of the health report.  Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._requests = self._unavailable = 0

    @contextmanager
    def counting(self, start_response):
        """Yield a WSGI server's `start_response`, which counts the answer once.

        An exception before it was called is counted too: the server answers it with status 500.
        """
        begun = []

        def count(status):
            with self._lock:
                self._requests += not begun
                self._unavailable += status.startswith('503') - sum(
                    each.startswith('503') for each in begun[-1:])
                begun.append(status)

        def start(status, *args):
            count(status)
            return start_response(status, *args)
        try:
            yield start
        except Exception:
            if not begun:
                count('500 Internal Server Error')
            raise

    def figures(self):
        """Return a dict for JSON: numbers of answers, and of those with status 503, so far."""
        with self._lock:
            return {'requests': self._requests, 'unavailable': self._unavailable}


def _unavailable(start_response, text):
    return _answer(
        start_response, '503 Service Unavailable',
        text + ' Nothing was changed. Please try again in a moment.\n',
        'text/plain; charset=utf-8', ('Retry-After', str(RETRY_AFTER)))


def _answer(start_response, status, text, content_type, *headers):
    start_response(status, [
        ('Content-Type', content_type),
        ('Content-Length', str(len(text))),
        ('Cache-Control', 'no-store')] + list(headers))
    return [text]


application = Application(
    IndicoInstance(), os.environ.get('ZODBREPL_INSTANCE'),
    os.environ.get('ZODBREPL_EPOCH_RECORD'))
