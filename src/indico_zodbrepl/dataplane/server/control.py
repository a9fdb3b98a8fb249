"""The orders that a running storage server takes over its control socket.

    {"do": "status"}
    {"do": "hold", "seconds": S}      no new commits; answers when none runs
    {"do": "release"}                 ends a hold
    {"do": "epoch", "epoch": N}       the cluster is in epoch N; a primary of an
                                      earlier one answers when no commit runs,
                                      and soon closes connections for writing
    {"do": "promote", "epoch": N, "replicate_to": "HOST:PORT"}
                                      a secondary or relay becomes a primary;
                                      with "until": B it has a lease at once,
                                      with "synchronous": {...} these settings
    {"do": "follow", "epoch": N, "upstream": "HOST:PORT"}
                                      another upstream; a primary whose commits
                                      are held becomes a secondary
    {"do": "detach", "epoch": N, "seconds": S}
                                      a secondary or relay leaves its upstream
                                      after it has processed everything it has
                                      received, for S seconds unless another
                                      order ends that
    {"do": "lease", "epoch": N, "until": B}
                                      a primary may commit until its host's
                                      CLOCK_BOOTTIME is B; from the first lease
                                      on never without one (see `lease`)
    {"do": "synchronous", "count": K, "level": L, "timeout": S, "alone": A}
                                      how a primary acknowledges commits until
                                      its end or change of role; each key may
                                      be missing (see `acknowledgements`)
    {"do": "alone"}                   a primary that asks for this goes on
                                      without followers

An answer has "ok": true; a failure "ok": false, "error" and "detail".  A hold
ends automatically after S seconds, so that a crash of the control plane blocks
nobody for good.  But a primary that learns of a higher epoch than its own
refuses commits, with or without a hold, until it is promoted itself: another
node may be writable by then.  Roles change in place, without interrupting
reads.
"""
from __future__ import absolute_import

import logging
import threading
import time

import zc.zrs.primary
import zc.zrs.secondary

from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.programs.clock import boottime, monotonic
from indico_zodbrepl.dataplane.server import detachment, lease, role_change
from indico_zodbrepl.dataplane.server.acknowledgement_states import DEGRADE, REFUSE
from indico_zodbrepl.dataplane.server.control_socket import Refused
from indico_zodbrepl.dataplane.zrs.confirmations import LEVELS

logger = logging.getLogger('zodbrepl.control')

LONGEST_HOLD = 120.0

_POLL = 0.002
# seconds for the event loop to take one short call
_LOOP_LIMIT = 10.0


class ServerControl(object):
    """Executes control requests, one after the other; status and lease at any time.

    Args:
        server: a NodeStorageServer.
    """

    def __init__(self, server):
        self._server = server
        self._lock = threading.Lock()
        self._ending = False
        self._detachment = detachment.Detachment(
            server.acceptor.event_loop.call_later, self._follow_again)

    def __call__(self, request):
        """Execute one request in the calling thread; return its answer.

        Raises Refused.  Do not call it in the event loop's or the reactor's
        thread.
        """
        if request.get('do') == 'status':
            return self._in_loop(self._status)
        if request.get('do') == 'lease':
            return self._lease(request)
        action = {'hold': self._hold, 'release': self._release,
                  'epoch': self._epoch, 'promote': self._promote,
                  'follow': self._follow, 'detach': self._detach,
                  'synchronous': self._synchronous, 'alone': self._alone}.get(request.get('do'))
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
        return dict(self._server.control_status(), detached_for=self._detachment.left)

    def _lease(self, request):
        epoch, until = self._new_epoch(request), _moment(request)
        self._require_primary()
        # The loop may be writing a commit.
        self._server.gate.lease.extend(epoch, until)
        return self._in_loop(self._checked_lease)

    def _checked_lease(self):
        self._server.gate.lease.check()
        return self._status()

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
                detail = 'a client has voted and did not end its commit within %g s'
                if not self._server.acknowledgements.idle:
                    detail = 'secondaries did not confirm what is committed within %g s'
                raise Refused('commits could not be held', detail % seconds)
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
        until = _moment(request) if 'until' in request else None
        if isinstance(storage, zc.zrs.secondary.Secondary):
            settings = self._settings(request.get('synchronous', {}))
            primary = _changed(role_change.primary_from, storage, address)
            self._in_loop(self._detachment.end)
            self._in_loop(self._server.acknowledgements.change, settings)
            self._in_loop(self._server.replace_storage, primary, epoch, until)
        elif getattr(storage, '_addr', None) != address:
            raise Refused('it is a primary already, and elsewhere',
                          repr(getattr(storage, '_addr', None)))
        else:
            self._in_loop(self._server.lead, epoch, until)
        return self._in_loop(self._status)

    def _follow(self, request):
        epoch, upstream = self._new_epoch(request), _address(
            request, 'upstream')
        storage = self._server.only_storage()
        if not isinstance(storage, zc.zrs.secondary.Secondary):
            self._step_down(storage, epoch)
            storage = role_change.secondary_from(storage)
            self._in_loop(self._server.replace_storage, storage, epoch)
        was_detached = self._in_loop(self._detachment.end)
        if was_detached or storage._addr != upstream:
            _changed(role_change.turn_to, storage, upstream)
        self._in_loop(self._server.enter_epoch, epoch)
        return self._in_loop(self._status)

    def _detach(self, request):
        self._new_epoch(request)
        seconds = _number(request, 'seconds')
        if not 0 < seconds <= detachment.LONGEST:
            raise Refused('cannot be detached for %g s' % seconds,
                          'more than 0 and at most %g' % detachment.LONGEST)
        storage = self._server.only_storage()
        if not isinstance(storage, zc.zrs.secondary.Secondary):
            raise Refused('not a follower', 'it has no upstream')
        self._in_loop(self._detachment.begin, seconds)
        try:
            _changed(role_change.leave, storage)
        except Refused:
            self._in_loop(self._detachment.end)
            raise
        return self._in_loop(self._status)

    def _follow_again(self):
        """Follow the upstream again if the time of the last detachment is over."""
        with self._lock:
            if self._ending or not self._in_loop(lambda: self._detachment.is_over):
                return
            self._in_loop(self._detachment.end)
            storage = self._server.only_storage()
            role_change.turn_to(storage, storage._addr)
            logger.warning('the follower was detached and got no other order: it follows %s again',
                           format_address(storage._addr))

    def _synchronous(self, request):
        settings = self._settings(request)
        if not isinstance(self._server.only_storage(), zc.zrs.primary.Primary):
            raise Refused('not a primary that can be followed')
        self._in_loop(self._server.acknowledgements.change, settings)
        return self._in_loop(self._status)

    def _settings(self, request):
        """Return the settings of acknowledged commits with the changes of a request."""
        settings = self._server.acknowledgements.settings
        changed = settings._replace(
            count=_number(request, 'count', int) if 'count' in request else settings.count,
            timeout=_number(request, 'timeout') if 'timeout' in request else settings.timeout,
            level=request.get('level', settings.level), alone=request.get('alone', settings.alone))
        if changed.count < 0 or changed.timeout <= 0:
            raise Refused('the number of secondaries may not be below 0, and the timeout has to be '
                          'above 0 s', repr(request))
        if changed.level not in LEVELS or changed.alone not in (REFUSE, DEGRADE):
            raise Refused('no such level or behaviour', repr(request))
        return changed

    def _alone(self, request):
        if not self._in_loop(self._server.acknowledgements.go_alone):
            raise Refused('this server does not wait for that',
                          'it is %s' % self._server.acknowledgements.state)
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


def _moment(request):
    until = _number(request, 'until')
    if until - boottime() > lease.LONGEST:
        raise Refused('the lease would last more than %g s' % lease.LONGEST,
                      'until has to be a moment of CLOCK_BOOTTIME')
    return until


def _number(request, key, kind=float):
    value = request.get(key)
    if isinstance(value, bool) or not isinstance(
            value, (int, long) if kind is int else (int, long, float)):
        raise Refused('%s has to be a number' % key, repr(value))
    return kind(value)
