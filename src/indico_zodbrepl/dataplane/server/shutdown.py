"""Stop a server on a signal, whatever its threads are doing.

Python runs signal handlers in the main thread only, between two byte codes: a
main thread that waits for a lock never reaches that point, and one that is
finishing a commit is interrupted in the middle of it.  So the handlers do
nothing here.  A separate thread is woken through `signal.set_wakeup_fd`, asks
the server to stop, and makes sure that it does.
"""
from __future__ import absolute_import

import errno
import fcntl
import logging
import os
import signal
import threading
import time

import zc.zrs.primary
import zc.zrs.secondary
import ZODB.FileStorage

from indico_zodbrepl.dataplane.programs.addresses import format_peer
from indico_zodbrepl.dataplane.programs.clock import monotonic

logger = logging.getLogger('zodbrepl.server')

SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP

# seconds after the limit until the kernel kills the process, in case even logging hangs
_LAST_RESORT = 5


class Termination(object):
    """Waits for SIGTERM, SIGINT or SIGHUP.

    Args:
        stop: called once, in a thread of its own; must return at once.
        limit: seconds that the process may then take to exit on its own.
        status: exit status if it takes longer.
    """

    def __init__(self, stop, limit, status):
        self._stop = stop
        self._limit = limit
        self._status = status

    def install(self):
        """Take over the signals; call it in the main thread."""
        self._wakeup, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETFL, os.O_NONBLOCK)
        signal.set_wakeup_fd(write_end)
        for number in SIGNALS:
            signal.signal(number, _ignore)
        thread = threading.Thread(target=self._run, name='termination')
        thread.daemon = True
        thread.start()

    def _run(self):
        _read_byte(self._wakeup)
        signal.alarm(self._limit + _LAST_RESORT)
        logger.info('told to end by a signal')
        self._stop()
        time.sleep(self._limit)
        logger.critical('not ended %d s after the signal: leaving by force',
                        self._limit)
        os._exit(self._status)


def _ignore(number, frame):
    pass


def _read_byte(descriptor):
    while True:
        try:
            return os.read(descriptor, 1)
        except OSError as error:
            if error.errno != errno.EINTR:
                raise


logger_drain = logging.getLogger('zodbrepl.replication')

_POLL = 0.02


def drain_and_close(storage, deadline):
    """Close a storage's replication links and the storage, for good.

    Call it when the server commits no more and the process is about to exit.
    First a secondary leaves its upstream, then a primary drains.  A pack that
    is running replaces the data file wholly or not at all, because the
    storage's lock is taken and kept.

    Args:
        storage: an open storage, zc.zrs or not.
        deadline: moment of `clock.monotonic` at which to give up on followers.
    """
    base = storage
    if isinstance(base, zc.zrs.secondary.Secondary):
        leave_upstream(base, deadline)
        base = base._storage
    if isinstance(base, zc.zrs.primary.Primary):
        drain(base, deadline)
        base = base._storage
    if isinstance(base, ZODB.FileStorage.FileStorage):
        base._lock.acquire()
        if base._pack_is_in_progress:
            logger_drain.warning('a pack of %s was running and ends unfinished',
                           base.getName())
    storage.close()


def leave_upstream(secondary, deadline):
    """Disconnect a secondary and wait until its connection is closed."""
    factory = secondary._factory
    closed = threading.Event()
    secondary._reactor.callFromThread(factory.close, closed.set)
    while monotonic() < deadline:
        if closed.is_set() and factory.instance is None:
            return
        time.sleep(_POLL)
    logger_drain.warning('the connection to the upstream did not end in time')


def drain(primary, deadline):
    """Wait until all followers have received every committed transaction.

    A follower closes its connection when it has received the last byte.  Those
    that have not done so by the deadline (frozen ones) are given up; they get
    the rest from the next node that they follow.

    Args:
        primary: a zc.zrs primary whose storage is still open.
        deadline: moment of `clock.monotonic` at which to give up.

    Returns the addresses of the followers that did not receive everything.
    """
    reactor = primary._reactor
    reactor.callFromThread(primary.cfr_stop_listening)
    connected = primary._factory.instances
    draining = []
    while connected and monotonic() < deadline:
        for protocol in list(connected):
            if protocol not in draining:
                draining.append(protocol)
                protocol.close()
        time.sleep(_POLL)
    late = list(connected)
    for protocol in late:
        logger_drain.warning(
            'follower %s did not take everything in time; it lacks the last '
            'transactions until it follows a node that has them',
            format_peer(protocol.transport))
        producer = protocol._PrimaryProtocol__producer
        if producer is not None:
            reactor.callFromThread(producer.stopProducing)
    if draining:
        logger_drain.info('drained to %d of %d followers',
                    len(draining) - len(late), len(draining))
    return [format_peer(protocol.transport) for protocol in late]
