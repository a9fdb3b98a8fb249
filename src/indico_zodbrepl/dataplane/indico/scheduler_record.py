"""Decide which scheduler runs, by Indico's own record of it in the database.

Indico's `SchedulerModule` names the host and the process of the scheduler that runs.  A scheduler
claims this record before it runs, and checks it in the transaction that starts a task, so ZODB
refuses one of two schedulers that start tasks at the same time.

With several hosts the scheduler that runs renews the record: it commits a new revision.  Another
one takes over when it has seen the same revision for some time.  A scheduler whose record was not
renewed for half of that time is killed by the kernel, with the tasks that it runs.  Each step needs
the server that the newest epoch of a majority of the hosts names: an isolated host may hold a
primary that another one has replaced.
"""
from __future__ import absolute_import

import logging
import os
import signal
import socket

from indico_zodbrepl.dataplane.programs.clock import monotonic

CYCLE = 10.0  # seconds between two checks of the queue
MODULE = 'indico_zodbrepl.dataplane.indico.scheduler'

log = logging.getLogger('scheduler')


class MayNotRun(Exception):
    """This scheduler must not run tasks; the text has NOTICE, DETAIL and HINT."""

    def __init__(self, notice, detail, hint):
        Exception.__init__(self, 'NOTICE: %s\nDETAIL: %s\nHINT: %s' % (notice, detail, hint))


class AnotherRuns(MayNotRun):
    """Another scheduler runs."""

    def __init__(self, detail, hint):
        MayNotRun.__init__(self, 'another scheduler runs, and a cluster has only one', detail, hint)


class OneHost(object):
    """The record in a cluster on one host: a scheduler refuses to run beside another one.

    Args:
        command: the shell command that removes the name of a scheduler whose host was lost.

    Attributes:
        cycle: seconds between two checks of the queue, or of a record that another one has.
        is_due: True if the record has to be renewed.
    """

    cycle = CYCLE
    is_due = False

    def __init__(self, command):
        self._command = command

    def why_waiting(self, _module):
        """Return why this scheduler has to wait, in words; None if it may claim the record."""
        return None

    def is_own(self, module):
        """Return True if the record names this process."""
        status = module.getStatus()
        return (status['hostname'], status['pid']) == (socket.getfqdn(), os.getpid())

    def claim(self, module):
        """Write this process into the record, which the caller commits.  Raises AnotherRuns."""
        other = running_elsewhere(module.getStatus())
        if other is not None:
            raise AnotherRuns(
                'the database names %s' % other,
                'stop that one; if it is gone for good: %s' % self._command)
        module.setSchedulerRunningStatus(True)

    def release(self, module, _busy):
        """Remove this process from the record, which the caller commits.

        Args:
            _busy: True while tasks run.
        """
        if running_elsewhere(module.getStatus()) is None:
            module.setSchedulerRunningStatus(False)

    def renewed(self, _began):
        """Note that the record was committed.

        Args:
            _began: `monotonic()` before the commit.
        """

    def why_apart(self):
        """Return why another host may run the same tasks, in words; None if none can."""
        return None


class SeveralHosts(object):
    """The record in a cluster of several hosts; methods and attributes as of `OneHost`.

    Only one process of this host may use it: the one that holds the lock of the scheduler.

    Args:
        host: name of this host in the cluster file.
        peers: `Peers` of this host.
        nodes: storage addresses by the names of their nodes.
        takeover: seconds after which this scheduler takes over from a silent one.
        server: returns the address to which the storage is connected.
    """

    def __init__(self, host, peers, nodes, takeover, server):
        self._host = host
        self._peers = peers
        self._nodes = nodes
        self._takeover = takeover
        self._server = server
        self.cycle = min(CYCLE, takeover / 16)
        self._seen, self._since = None, None
        self._free = None
        self._renewed = None
        self._why_not = None

    @property
    def is_due(self):
        if monotonic() - self._renewed < self._takeover / 4:
            return False
        before, self._why_not = self._why_not, self.why_apart()
        if self._why_not is not None and before is None:
            log.warning('the record is not renewed: %s', self._why_not)
        return self._why_not is None

    def why_waiting(self, module):
        epoch = self._peers.newest()
        waiting = self._why_not_current(epoch)
        if waiting is not None:
            return waiting
        other = self._other(module)
        # After `_other`, which loads the object.  A renewal of an earlier epoch may be lost.
        seen = module._p_serial, epoch
        if seen != self._seen:
            self._seen, self._since = seen, monotonic()
        if other is not None and monotonic() - self._since < self._takeover:
            return 'the scheduler of host %s runs' % other
        self._free = module._p_serial
        return None

    def why_apart(self):
        return self._why_not_current(self._peers.newest())

    def _why_not_current(self, epoch):
        if epoch is None:
            return 'fewer than a majority of the hosts answer'
        if epoch.primary and self._server() != self._nodes.get(epoch.primary):
            return 'not connected to node %s, the primary of epoch %d' % (
                epoch.primary, epoch.number)
        return None

    def is_own(self, module):
        status = module.getStatus()
        return (status['hostname'], status['pid']) == (self._host, os.getpid())

    def claim(self, module):
        other = self._other(module)
        if other is not None:
            if module._p_serial != self._free:
                raise AnotherRuns(
                    'the database names the one of host %s' % other, 'none; this one waits')
            log.warning('taking over from host %s', other)
        module.setSchedulerRunningStatus(True)
        module._hostname = self._host

    def release(self, module, busy):
        # Others would run these tasks again at once.
        if not busy and self.is_own(module):
            module.setSchedulerRunningStatus(False)

    def renewed(self, began):
        self._renewed = began
        signal.setitimer(
            signal.ITIMER_REAL, max(0.001, began + self._takeover / 2 - monotonic()))

    def _other(self, module):
        """Return the other host that the record names; None if none runs."""
        status = module.getStatus()
        if not status['state'] or status['hostname'] in (None, self._host):
            return None
        return status['hostname']


def running_elsewhere(status):
    """Return which other scheduler the database names, in words; None if none runs.

    Args:
        status: what Indico's `SchedulerModule.getStatus` returns.
    """
    host, pid = status['hostname'], status['pid']
    if not status['state'] or host is None or pid is None:
        return None
    if host == socket.getfqdn():
        if pid == os.getpid() or not _is_scheduler(pid):
            return None
        return 'process %d of this host' % pid
    return 'process %d of host %s' % (pid, host)


def _is_scheduler(pid):
    try:
        with open('/proc/%d/cmdline' % pid) as stream:
            return 'scheduler' in stream.read()
    except IOError:
        return False
