"""Run Indico's scheduler in the foreground, as a program of supervisord.

usage: INDICO_CONF=... python -m indico_zodbrepl.dataplane.indico.scheduler --lock FILE
           [--host NAME --takeover SECONDS --tls FOLDER --peer NAME=HOST:PORT ...
            --node NAME=HOST:PORT ...]
       INDICO_CONF=... python -m indico_zodbrepl.dataplane.indico.scheduler --forget

It waits until the storage accepts writes, and waits again whenever the storage is away, as during
a failover.  Tasks that were interrupted run again.  It stops on SIGTERM, and when supervisord has
ended, which held its standard input; running tasks have DRAIN_LIMIT seconds to finish.

At most one runs tasks.  On this host the lock ensures that.  Across hosts the database does: it
names the scheduler that runs, see `scheduler_record`.  With --host, in a cluster of several hosts,
this program waits beside that one, and takes over when its host is lost.  Without --host it refuses
to start beside that one; --forget removes the name, after the host of a scheduler was lost.

exit status: 0 stopped, 1 failed or has to start again, 2 wrong command line or no indico.conf, 8
another one runs.  Of several hosts' schedulers, one that could not renew its record is killed by
SIGALRM.
"""
from __future__ import absolute_import

import argparse
import fcntl
import logging
import os
import signal
import sys
import threading
import time

from indico_zodbrepl.dataplane.client.reconnection import RECORD
from indico_zodbrepl.dataplane.client.status import storage_status
from indico_zodbrepl.dataplane.indico import instance
from indico_zodbrepl.dataplane.indico.peers import Peers
from indico_zodbrepl.dataplane.indico.scheduler_record import (
    MODULE,
    AnotherRuns,
    MayNotRun,
    OneHost,
    SeveralHosts,
    running_elsewhere,
)
from indico_zodbrepl.dataplane.programs.clock import monotonic

LOCK_PATIENCE = 20.0  # seconds; a scheduler whose supervisord was killed may still be stopping
DRAIN_LIMIT = 10.0  # seconds; supervisord kills after 15
PAUSE = 1.0  # seconds between two checks of the storage, and of a request to stop
FAILED = 1
REFUSED = 8

log = logging.getLogger('scheduler')


class Stop(object):
    """A request to stop, made by a signal or by the end of standard input."""

    def __init__(self):
        self.requested = False

    def request(self, *_signal):
        self.requested = True

    def follow_parent(self):
        """Request a stop when standard input ends."""
        def wait():
            while os.read(0, 1024):
                pass
            self.request()

        waiter = threading.Thread(target=wait, name='end of supervisord')
        waiter.daemon = True
        waiter.start()

    def sleep(self, seconds):
        """Sleep; return early when a stop is requested."""
        deadline = monotonic() + seconds
        while not self.requested and monotonic() < deadline:
            time.sleep(max(0.0, min(PAUSE, deadline - monotonic())))


def lock(path):
    """Return the locked file, which must stay open.  Raises AnotherRuns."""
    deadline = monotonic() + LOCK_PATIENCE
    stream = open(path, 'a')
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return stream
        except IOError:
            if monotonic() >= deadline:
                raise AnotherRuns('a process of this host holds %s' % path, 'fuser -v %s' % path)
        time.sleep(0.2)


def open_storage(stop, record):
    """Return Indico's DBMgr once this scheduler has claimed the record; None at a stop.

    Wait until the storage accepts writes and holds an Indico, and the record is free.
    """
    from indico.core.db import DBMgr
    from indico.core.db.retries import STORAGE_ERRORS

    said = None
    while not stop.requested:
        try:
            missing = _missing(DBMgr.getInstance(), record)
        except STORAGE_ERRORS as error:
            missing = 'the storage is away: %s' % (error or type(error).__name__)
        if missing is None:
            return DBMgr.getInstance()
        if missing != said:
            said = missing
            log.warning('waiting: %s', missing)
        stop.sleep(min(PAUSE, record.cycle))
    return None


def _missing(manager, record):
    from indico.modules.scheduler import SchedulerModule
    from ZODB.POSException import ConflictError

    if not storage_status(manager._db)['writable']:
        return 'the storage accepts no writes'
    manager.startRequest()
    try:
        if 'rootCategory' not in manager.getDBConnection().root():
            return 'the database holds no Indico'
        module = SchedulerModule.getDBInstance()
        waiting = record.why_waiting(module)
        if waiting is None:
            began = monotonic()
            record.claim(module)
            try:
                manager.commit()
            except ConflictError:
                manager.abort()
                return 'another scheduler was faster'
            record.renewed(began)
        return waiting
    finally:
        manager.endRequest(False)


def make_scheduler(stop, record):
    """Return Indico's scheduler, made to be supervised; the storage has to be open."""
    from indico.core.db import DBMgr
    from indico.core.db.retries import STORAGE_ERRORS
    from indico.modules.scheduler import Scheduler, SchedulerModule, base
    from indico.modules.scheduler.slave import ThreadWorker
    from indico.util.date_time import int_timestamp

    class Clock(base.UTCTimeSource):
        def sleep(self, amount):
            stop.sleep(amount)
            if stop.requested and threading.current_thread().name != 'MainThread':
                raise base.SchedulerQuitException('stopped')

    class Worker(ThreadWorker):
        interrupted = False

        def run(self):
            try:
                ThreadWorker.run(self)
            except STORAGE_ERRORS + (base.SchedulerQuitException,) as error:
                self.interrupted = self.getResult() is not True
                self._logger.warning('interrupted: %s', error or type(error).__name__)
            finally:
                DBMgr.abandonRequest()

    # Indico's own operation, without its transaction.
    set_running = Scheduler.__dict__['_db_setTaskRunning']._f

    class Supervised(Scheduler):
        def _db_setRunningStatus(self, value):
            began = monotonic()
            self._db_write(value)
            if value:
                record.renewed(began)

        @base.OperationManager
        def _db_write(self, value):
            if value:
                record.claim(self._schedModule)
            else:
                busy = any(worker.isAlive() for worker in self._runningWorkers.values())
                record.release(self._schedModule, busy)

        @base.OperationManager
        def _db_renew(self):
            self._hold()
            self._schedModule._p_changed = True

        @base.OperationManager
        def _db_setTaskRunning(self, timestamp, curTask):
            self._hold()
            set_running(self, timestamp, curTask)

        def _hold(self):
            if not record.is_own(self._schedModule):
                record.claim(self._schedModule)

        def _readFromDb(self):
            if stop.requested:
                self._drain()
                raise base.SchedulerQuitException('stopped')
            Scheduler._readFromDb(self)
            if not record.is_own(self._schedModule):
                self._db_setRunningStatus(True)
            elif record.is_due:
                began = monotonic()
                self._db_renew()
                record.renewed(began)

        def _drain(self):
            deadline = monotonic() + DRAIN_LIMIT
            for worker in self._runningWorkers.values():
                worker.join(max(0.0, deadline - monotonic()))
            self._dbi.sync()
            self._checkFinishedTasks()

        def _taskCycle(self, timestamp, curTask):
            apart = record.why_apart()
            if apart is not None:
                self._sleep('Not starting task %s: %s' % (curTask.id, apart))
                return
            self._db_setTaskRunning(timestamp, curTask)
            # Again, because a server that another one has replaced may have committed that.
            apart = record.why_apart()
            if apart is not None:
                raise MayNotRun(
                    'another host may run the same tasks', apart,
                    'none; this scheduler starts again and waits until that is over')
            delay = int_timestamp(self._getCurrentDateTime()) - timestamp
            worker = Worker(curTask.id, self._config, delay)
            worker.daemon = True
            self._runningWorkers[curTask.id] = worker
            worker.start()

        def _checkFinishedTasks(self):
            for identifier, worker in self._runningWorkers.items():
                if worker.interrupted and not worker.isAlive():
                    self._relaunch(self._schedModule.getTaskById(identifier))
                    del self._runningWorkers[identifier]
            Scheduler._checkFinishedTasks(self)

        def _relaunchRunningListItems(self):
            for task in list(self._schedModule.getRunningList()):
                if task.id not in self._runningWorkers:
                    self._relaunch(task)

        def _relaunch(self, task):
            log.warning('task %s was interrupted and runs again', task.id)
            task.tearDown()
            try:
                self._db_moveTask(task, base.TASK_STATUS_RUNNING, base.TASK_STATUS_QUEUED)
            except base.TaskInconsistentStatusException:
                log.exception('task %s is damaged; it counts as failed', task.id)
                self._db_moveTask(
                    task, base.TASK_STATUS_RUNNING, base.TASK_STATUS_FAILED, nocheck=True)

        def go_on(self):
            """Run until a stop is requested; wait while the storage is away."""
            while not stop.requested:
                try:
                    self.run()
                    return  # or it was stopped through the database, by Indico's own script
                except STORAGE_ERRORS as error:
                    log.warning('interrupted: %s', error or type(error).__name__)
                    self._dbi.endRequest(False)
                    if open_storage(stop, record) is not None:
                        self._dbi.startRequest()
                        self._schedModule = SchedulerModule.getDBInstance()

    base.TimeSource.set(Clock())
    return Supervised(multitask_mode='threads', sleep_interval=record.cycle)


def forget():
    """Remove the name of the running scheduler from the database."""
    from indico.core.db import DBMgr
    from indico.modules.scheduler import SchedulerModule

    manager = DBMgr.getInstance()
    manager.startRequest()
    module = SchedulerModule.getDBInstance()
    other = running_elsewhere(module.getStatus())
    module.setSchedulerRunningStatus(False)
    manager.endRequest(True)
    print('forgot %s' % (other or 'nothing: no scheduler was named that runs'))


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog='scheduler', description="Runs Indico's scheduler in the foreground.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument('--lock', metavar='FILE', help='the file that one scheduler locks')
    what.add_argument('--forget', action='store_true',
                      help='forget a scheduler whose host was lost, and exit')
    parser.add_argument('--host', metavar='NAME',
                        help='this host in a cluster of several, which take over from each other')
    parser.add_argument('--takeover', metavar='SECONDS', type=float, default=120,
                        help='time without a sign of the scheduler that runs')
    parser.add_argument('--tls', metavar='FOLDER', help='with the certificate of this host')
    parser.add_argument('--peer', metavar='NAME=HOST:PORT', action='append', default=[],
                        type=_named, help='another host and the address of its agent')
    parser.add_argument('--node', metavar='NAME=HOST:PORT', action='append', default=[],
                        type=_named, help='a node and its storage address')
    options = parser.parse_args(argv)
    try:
        instance.require()
    except instance.Missing as error:
        sys.stderr.write('scheduler: %s\n' % error)
        return 2
    stop = Stop()
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, stop.request)
    import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
    if options.forget:
        forget()
        return 0
    stop.follow_parent()
    _log_to_stderr()
    if options.host is None:
        record = OneHost('INDICO_CONF=%s %s -m %s --forget' % (
            os.environ['INDICO_CONF'], sys.executable, MODULE))
    else:
        record = _of_several_hosts(options)
    try:
        held = lock(options.lock)
        if open_storage(stop, record) is not None:
            make_scheduler(stop, record).go_on()
    except MayNotRun as error:
        sys.stderr.write('%s\n' % error)
        if options.host is not None:
            # At once, with the tasks that run: another host may run them again.
            os._exit(FAILED)
        return REFUSED
    del held
    return 0


def _named(text):
    name, _, address = text.partition('=')
    return name, address


def _of_several_hosts(options):
    from indico.core.db import DBMgr

    agents = {}
    for name, address in options.peer:
        host, _, port = address.rpartition(':')
        agents[name] = host, int(port)
    return SeveralHosts(
        options.host, Peers(agents, options.tls, os.environ.get(RECORD)), dict(options.node),
        options.takeover, lambda: storage_status(DBMgr.getInstance()._db)['server'])


def _log_to_stderr():
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter('%(asctime)s %(levelname)-7s %(name)s: %(message)s'))
    handler.setLevel(logging.INFO)
    logging.getLogger().addHandler(handler)


if __name__ == '__main__':
    sys.exit(main())
