"""The orders that a running storage server takes over its control socket.

    {"do": "status"}
    {"do": "hold", "seconds": S}      no new commits; answers when none runs
    {"do": "release"}                 ends a hold
    {"do": "epoch", "epoch": N}       the cluster is in epoch N; a primary of an
                                      earlier one answers when no commit runs,
                                      and soon closes connections for writing
    {"do": "promote", "epoch": N, "replicate_to": "HOST:PORT"}
                                      a secondary or relay becomes a primary
    {"do": "follow", "epoch": N, "upstream": "HOST:PORT"}
                                      another upstream; a primary whose commits
                                      are held becomes a secondary

An answer has "ok": true; a failure "ok": false, "error" and "detail".  A hold
ends automatically after S seconds, so that a crash of the control plane blocks
nobody for good.  But a primary that learns of a higher epoch than its own
refuses commits, with or without a hold, until it is promoted itself: another
node may be writable by then.  Roles change in place, without interrupting
reads.
"""
from __future__ import absolute_import

import json
import logging
import os
import socket
import threading
import time

import zc.zrs.primary
import zc.zrs.secondary

from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.server import role_change

logger = logging.getLogger('zodbrepl.control')

LONGEST_HOLD = 120.0

_POLL = 0.002
# seconds for the event loop to take one short call
_LOOP_LIMIT = 10.0


class ServerControl(object):
    """Executes control requests, one after the other; status at any time.

    Args:
        server: a NodeStorageServer.
    """

    def __init__(self, server):
        self._server = server
        self._lock = threading.Lock()
        self._ending = False

    def __call__(self, request):
        """Execute one request in the calling thread; return its answer.

        Raises Refused.  Do not call it in the event loop's or the reactor's
        thread.
        """
        if request.get('do') == 'status':
            return self._in_loop(self._status)
        action = {'hold': self._hold, 'release': self._release,
                  'epoch': self._epoch, 'promote': self._promote,
                  'follow': self._follow}.get(request.get('do'))
        if action is None:
            raise Refused('no such control request', repr(request.get('do')))
        with self._lock:
            if self._ending:
                raise Refused('the server is about to end')
            begin = monotonic()
            answer = action(request)
            logger.info('did %s in %.3f s', request, monotonic() - begin)
            return answer

    def end(self):
        """Wait for the request under way; refuse later ones."""
        with self._lock:
            self._ending = True

    def _status(self):
        return self._server.control_status()

    def _hold(self, request):
        seconds = _number(request, 'seconds')
        if not 0 < seconds <= LONGEST_HOLD:
            raise Refused('cannot hold commits for %g s' % seconds,
                          'more than 0 and at most %g' % LONGEST_HOLD)
        self._require_primary()
        gate = self._server.gate
        deadline = monotonic() + seconds
        self._in_loop(gate.hold, seconds)
        while not self._in_loop(lambda: gate.idle):
            if monotonic() > deadline - min(1, seconds / 2):
                self._in_loop(gate.release)
                raise Refused('commits could not be held',
                              'a client has voted and did not end its commit '
                              'within %g s' % seconds)
            time.sleep(_POLL)
        return self._in_loop(self._status)

    def _release(self, request):
        was_held = self._in_loop(self._server.gate.release)
        return dict(self._in_loop(self._status), was_held=was_held)

    def _epoch(self, request):
        self._in_loop(self._server.enter_epoch, self._new_epoch(request))
        if self._server.known_epoch > self._server.epoch:
            self._end_commits()
            # Otherwise they would go on to read what another primary has replaced.
            self._in_loop(self._server.release_writers)
        return self._in_loop(self._status)

    def _promote(self, request):
        epoch, address = self._new_epoch(request), _address(
            request, 'replicate_to')
        storage = self._server.only_storage()
        if isinstance(storage, zc.zrs.secondary.Secondary):
            primary = _changed(role_change.primary_from, storage, address)
            self._in_loop(self._server.replace_storage, primary, epoch)
        elif getattr(storage, '_addr', None) != address:
            raise Refused('it is a primary already, and elsewhere',
                          repr(getattr(storage, '_addr', None)))
        else:
            self._in_loop(self._server.lead, epoch)
        return self._in_loop(self._status)

    def _follow(self, request):
        epoch, upstream = self._new_epoch(request), _address(
            request, 'upstream')
        storage = self._server.only_storage()
        if not isinstance(storage, zc.zrs.secondary.Secondary):
            self._step_down(storage, epoch)
            storage = role_change.secondary_from(storage)
            self._in_loop(self._server.replace_storage, storage, epoch)
        if storage._addr != upstream:
            _changed(role_change.turn_to, storage, upstream)
        self._in_loop(self._server.enter_epoch, epoch)
        return self._in_loop(self._status)

    def _step_down(self, storage, epoch):
        """Make sure that a primary commits nothing any more."""
        gate = self._server.gate
        if not isinstance(storage, zc.zrs.primary.Primary):
            raise Refused('it takes no part in replication')
        if not gate.closed_to_writers:
            raise Refused('it is a primary, and takes commits',
                          'hold them first')
        if epoch <= self._server.epoch:
            raise Refused('it is the primary of epoch %d' % epoch)
        self._in_loop(gate.supersede, epoch)
        self._end_commits()

    def _end_commits(self):
        """Wait until no client is between its vote and the end of its transaction."""
        deadline = monotonic() + _LOOP_LIMIT
        while not self._in_loop(lambda: self._server.gate.idle):
            if monotonic() > deadline:
                raise Refused('a client has voted and does not end its commit')
            time.sleep(_POLL)

    def _new_epoch(self, request):
        epoch = _number(request, 'epoch', int)
        if epoch < self._server.known_epoch:
            raise Refused('epoch %d is over' % epoch, 'this server knows of '
                          'epoch %d' % self._server.known_epoch)
        return epoch

    def _require_primary(self):
        if not is_primary(self._server.only_storage()):
            raise Refused('not a primary', 'it takes no commits')

    def _in_loop(self, function, *args):
        return call_in_loop(self._server.acceptor.event_loop, function, *args)


def is_primary(storage):
    """Return True if an open storage takes commits, apart from gates."""
    return not isinstance(storage, zc.zrs.secondary.Secondary)


def call_in_loop(loop, function, *args):
    """Return the result of a short function, called in the thread of an event loop.

    Raises what it raises; Refused if the loop has ended or hangs.
    """
    done = threading.Event()
    outcome = []

    def call():
        try:
            outcome.append((function(*args), None))
        except Exception as error:
            outcome.append((None, error))
        done.set()

    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        raise Refused('the server is about to end')
    deadline = monotonic() + _LOOP_LIMIT
    # In Python 2.7 a wait with a time limit polls: it is up to 50 ms late.
    while not done.is_set():
        if loop.is_closed():
            raise Refused('the server is about to end')
        if monotonic() > deadline:
            raise Refused('the server did not react',
                          'its event loop has ended or hangs')
        time.sleep(0.001)
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def _changed(change, *args):
    try:
        return change(*args)
    except role_change.RoleError as error:
        raise Refused('the role was not changed', str(error))


def _address(request, key):
    try:
        host, port = str(request[key]).rsplit(':', 1)
        return host.strip('[]'), int(port)
    except (KeyError, ValueError):
        raise Refused('%s has to be HOST:PORT' % key, repr(request.get(key)))


def _number(request, key, kind=float):
    value = request.get(key)
    if isinstance(value, bool) or not isinstance(
            value, (int, long) if kind is int else (int, long, float)):
        raise Refused('%s has to be a number' % key, repr(value))
    return kind(value)


NAME = 'control.sock'

_LONGEST_REQUEST = 4096
# seconds for a peer to send its request and receive the answer
_PATIENCE = 10
# seconds until the next attempt after a failed accept
_PAUSE = 0.2


class Refused(Exception):
    """A request that was not executed; nothing has changed.

    Args:
        error: what could not be done, one line.
        detail: why.
    """

    def __init__(self, error, detail=''):
        Exception.__init__(self, error, detail)
        self.error = error
        self.detail = detail


class ControlSocket(object):
    """A socket that listens from its creation; each request has a thread.

    Args:
        folder: of the socket; that of an earlier server is replaced, so the
            caller must know that this server is gone.
        handle: called with a request (a dict); returns the answer (a dict) or
            raises Refused.
    """

    def __init__(self, folder, handle):
        self._handle = handle
        self._path = os.path.join(folder, NAME)
        if os.path.lexists(self._path):
            os.unlink(self._path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _bind(self._listener, folder)
        os.chmod(self._path, 0o600)
        self._listener.listen(64)  # each node of a status asks at once
        self._closed = False
        _start(self._accept, ())

    def close(self):
        """Take no more requests; running ones continue."""
        self._closed = True
        try:
            os.unlink(self._path)
        except OSError as error:
            # The server has more to do before it ends.
            logger.warning('%s was not removed: %s', self._path, error.strerror)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                peer, _ = self._listener.accept()
            except socket.error as error:
                if self._closed:
                    return
                # It works again, for example, once there are free file descriptors.
                logger.error('no control connection was taken: %s', error)
                time.sleep(_PAUSE)
                continue
            _start(self._serve, (peer,))

    def _serve(self, peer):
        try:
            peer.settimeout(_PATIENCE)
            line = peer.makefile('rb').readline(_LONGEST_REQUEST)
            if line:
                peer.sendall(json.dumps(self._answer(line)) + '\n')
        except socket.error as error:
            logger.warning('a control connection ended early: %s', error)
        finally:
            peer.close()

    def _answer(self, line):
        try:
            return dict(self._handle(_parsed(line)), ok=True)
        except Refused as refused:
            logger.warning('refused %s: %s: %s', line.strip(), refused.error,
                           refused.detail)
            return _failure(refused.error, refused.detail)
        except Exception as error:
            logger.exception('control request %r failed', line)
            return _failure('the server met an unforeseen error',
                            '%s: %s' % (type(error).__name__, error))


def _parsed(line):
    try:
        request = json.loads(line)
    except ValueError as error:
        raise Refused('the request is no JSON', str(error))
    if not isinstance(request, dict):
        raise Refused('the request is no JSON object', line.strip())
    return request


def _failure(error, detail):
    return {'ok': False, 'error': error, 'detail': detail}


def _bind(listener, folder):
    """Bind by a short path, because the folder's may be too long for a socket."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind('/proc/self/fd/%d/%s' % (descriptor, NAME))
    finally:
        os.close(descriptor)


def _start(target, args):
    thread = threading.Thread(target=target, args=args, name='control')
    thread.daemon = True
    thread.start()
