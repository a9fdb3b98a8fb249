"""POST /indico/zodbrepl/benchmarks/NAME: run one test and answer with its result."""
from __future__ import absolute_import

import logging
import os
import select
import socket
import threading

from flask import request
from indico.core.config import Config
from indico.core.db import DBMgr

from indico_zodbrepl.dataplane.benchmarks import parameters, running
from indico_zodbrepl.dataplane.benchmarks import running as turn
from indico_zodbrepl.dataplane.benchmarks.parameters import BenchmarkError
from indico_zodbrepl.dataplane.indico.plugin.access import requester
from indico_zodbrepl.dataplane.indico.plugin.answers import RHJson

LOOK_EVERY = 0.1  # seconds between two checks if the client is still connected

log = logging.getLogger(__name__)


class RHBenchmark(RHJson):
    """A test; its parameters are the form's fields, see `benchmarks.parameters`.

    Status: 200 with the result; 400 wrong parameters; 403 not allowed; 404 no
    such test; 409 another one runs in this instance, with who, since and test;
    412 no data that it can use; 503 the storage failed.  The test ends early
    when the client closes the connection.
    """

    _outcome = None

    def _checkProtection(self):
        self._who = requester(self._getUser())

    def _process(self):
        if self._outcome is None:  # otherwise Indico retries the request
            DBMgr.getInstance().releaseView()
            self._outcome = self._made()
            DBMgr.getInstance().sync()
        status, content = self._outcome
        self._responseUtil.status = status
        return self._answer(content)

    def _made(self):
        """Return the HTTP status and the answer."""
        name = request.view_args['name']
        try:
            running.require(name)
            wanted = parameters.parsed(request.form)
            lock = os.path.join(
                Config.getInstance().getUploadedFilesTempDir(), 'benchmark.lock')
            with turn.alone(lock, self._who, name) as began:
                return 200, self._run(name, wanted, began)
        except turn.AtWork as error:
            return 409, {'error': str(error), 'who': error.who, 'since': error.since,
                         'test': error.test}
        except BenchmarkError as error:
            return error.status, {'error': str(error)}
        except Exception as error:
            log.exception('the test %s failed', name)
            return 500, {'error': '%s: %s' % (type(error).__name__, error)}

    def _run(self, name, wanted, began):
        """Run the test in a thread, so that it has a connection and transactions of its own."""
        instance = os.environ.get('ZODBREPL_INSTANCE') or 'indico'
        work = _Work(running.run, name, wanted, instance, began)
        gone = _watcher_of_client(request.environ.get('gunicorn.socket'))
        while not work.ended(LOOK_EVERY):
            if gone():
                work.stop()
        result = work.result()
        result.update(who=self._who, pid=os.getpid())
        return result


class _Work(object):
    """A call in a thread; its last argument is a function that returns True to end early."""

    def __init__(self, function, *args):
        self._call = lambda: function(*(args + (self._stopping.is_set,)))
        self._stopping = threading.Event()
        self._result = self._error = None
        self._thread = threading.Thread(target=self._run, name='benchmark')
        self._thread.setDaemon(True)
        self._thread.start()

    def _run(self):
        try:
            self._result = self._call()
        except Exception as error:  # raised again by result()
            if not isinstance(error, BenchmarkError):
                log.exception('a test failed')
            self._error = error

    def stop(self):
        self._stopping.set()

    def ended(self, seconds):
        self._thread.join(seconds)
        return not self._thread.isAlive()

    def result(self):
        if self._error is not None:
            raise self._error
        return self._result


def _watcher_of_client(connection):
    """Return a function that returns True if the client has closed its connection.

    Args:
        connection: its socket; None if the WSGI server does not provide it.
    """
    def gone():
        try:
            readable, _, _ = select.select([connection], [], [], 0)
            return bool(readable) and not connection.recv(1, socket.MSG_PEEK)
        except (socket.error, select.error):
            return True
    return (lambda: False) if connection is None else gone
