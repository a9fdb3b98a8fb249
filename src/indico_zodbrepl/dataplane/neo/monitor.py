"""The NEO monitor: it knows the state of a cluster at any moment, and kills hung processes.

usage: python -m indico_zodbrepl.dataplane.neo.monitor --folder FOLDER
           --admin HOST:PORT [--hung-after SECONDS] [--majority MASTERS]
           [--node HOST:PORT[=DATA-FOLDER]]... [-- NEOADMIN-OPTION...]

Asks the cluster twice a second, and pings each master and storage.  FOLDER gets
control.sock, mode 0600, which answers {"do": "status"} with what is known, see
`Monitor.status`; and warden.jsonl, the action log, one line for each action.
Each --node is a process of the cluster; one with a data folder, on this host, can be killed when
it hangs, so that its supervisor restarts it.  With options for neoadmin the NEO monitor runs the
admin node itself, in FOLDER, with --majority as of `process`.

exit status: 0 told to end, 2 wrong command line.
"""

from __future__ import absolute_import

import argparse
import collections
import json
import logging
import os
import signal
import sys
import threading
import time

from indico_zodbrepl.dataplane.neo import control, process, sizes
from indico_zodbrepl.dataplane.neo.control import parse
from indico_zodbrepl.dataplane.neo.pings import Pinger
from indico_zodbrepl.dataplane.neo.policy import (
    Action,
    about_strays,
    decide,
    holds_everything,
    strays,
)
from indico_zodbrepl.dataplane.neo.process import Child
from indico_zodbrepl.dataplane.neo.state import NOTHING, WRITABLE, describe
from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.programs.clock import install, monotonic
from indico_zodbrepl.dataplane.server.control_socket import ControlSocket, Refused

log = logging.getLogger('zodbrepl.neo.monitor')

INTERVAL = 0.5  # seconds
ANSWER_LIMIT = 2.0  # seconds for each query to the cluster
# An order without effect is repeated after this many seconds.
PATIENCE = 5.0
SHOWN_DEEDS = 20


class Monitor(object):
    """A monitor of one cluster; one thread calls `look`, any thread may call `status`.

    Args:
        nodes: {(host, port): data folder, None for a process of another host}.
        admin: (host, port) of the admin node.
        child: a `Child` that is the admin node; None if it runs elsewhere.
        deeds: an `ActionLog`.
        hung_after: seconds of silence after which a process is killed; 0 for never.
        several: True if the cluster has several hosts, each with a monitor.
    """

    def __init__(self, nodes, admin, child, deeds, hung_after, several=False):
        self._several = several
        self._folders = dict(
            (format_address(each), nodes[each]) for each in nodes if nodes[each])
        self._addresses = dict((format_address(each), each) for each in nodes)
        self._control = control.Control(admin, ANSWER_LIMIT)
        self._child = child
        self._admin = admin
        self._own = Pinger(admin)
        self._deeds = deeds
        self._hung_after = hung_after
        self._acted = {}
        self._stray_since = {}
        self._greetings = dict(
            (name, Pinger(address)) for name, address in self._addresses.items())
        self._found = dict(
            NOTHING, began=0.0, asked=0.0, failure='the first look is not over', silence={}, pings={},
            hung=[], hung_after=hung_after, writable=False, sizes={}, problems=[])
        for each in list(self._greetings.values()) + [self._own]:
            each.start()

    def close(self):
        """Stop the threads, the connection and the child."""
        for each in list(self._greetings.values()) + [self._own]:
            each.close()
        self._control.close()
        if self._child is not None:
            self._child.end()

    def status(self):
        """Return the known state, as a dict for JSON.

        began, asked: when the last check began, and when the cluster's answers were complete, in
        seconds since 1970; failure: why it did not answer, or None; what `state.NOTHING` lists;
        silence: {address: seconds} of silent processes; pings: {address: 'answers', 'refuses',
        'silent' or None, not known yet}; hung: the addresses silent for too long; hung_after;
        writable: whether a write would succeed now, as far as is known without one; sizes:
        {address: bytes} of the databases on this host; problems: texts; deeds: the latest actions
        of the NEO monitor.
        """
        return dict(self._found, deeds=self._deeds.latest(SHOWN_DEEDS))

    def look(self):
        """Check everything once, and act on it."""
        failure = state = None
        began = time.time()
        self._look_after_the_child()
        try:
            state = describe(self._control)
        except control.Failed as failed:
            failure = str(failed)
        silent = self._silent()
        here = self._here()
        actions, problems = decide(state, silent, self._hung_after, here, self._several)
        for each in actions + about_strays(self._strays(state, here), self._hung_after):
            self._act(each, here)
        found = dict(NOTHING if state is None else state)
        found.update(
            began=began, asked=time.time(), failure=failure, silence=silent,
            pings=dict((name, each.state) for name, each in self._greetings.items()),
            hung=sorted(address for address in silent
                        if self._hung_after and silent[address] >= self._hung_after),
            hung_after=self._hung_after,
            writable=_writable(found, silent), sizes=sizes.of_files(self._folders),
            problems=[each.text for each in problems])
        self._found = found

    def _look_after_the_child(self):
        if self._child is None:
            return
        self._child.keep()
        if self._hung_after and self._own.silent >= self._hung_after:
            action = Action('kill-process', format_address(self._admin),
                            'silent for %.0f s' % self._own.silent)
            self._deeds.do(action.kind, action, lambda action: self._child.kill())

    def _strays(self, state, here):
        """Return for how many seconds each stray process has been one."""
        now = monotonic()
        self._stray_since = dict(
            (address, self._stray_since.get(address, now)) for address in strays(state, here))
        return dict((address, now - since) for address, since in self._stray_since.items())

    def _silent(self):
        return dict((name, round(each.silent, 2))
                    for name, each in self._greetings.items() if each.silent >= 1.0)

    def _here(self):
        found = set()
        for name, folder in self._folders.items():
            try:
                if process.running(folder) is not None:
                    found.add(name)
            except (IOError, ValueError) as error:
                log.warning('%s: %s', name, error)
        return found

    def _act(self, action, here):
        """Execute an action, at most once every PATIENCE seconds."""
        now = monotonic()
        if now < self._acted.get(action.address, 0) + PATIENCE:
            return
        self._acted[action.address] = now
        self._stray_since.pop(action.address, None)
        if action.kind == 'kill-storage':
            self._deeds.do('kill-storage', action, self._take_out)
        if action.address in here:
            self._deeds.do('kill-process', action, self._end)

    def _take_out(self, action):
        control.kill(self._control, self._addresses[action.address])
        return 'taken out of the cluster'

    def _end(self, action):
        pid = process.kill(self._folders[action.address])
        return 'it had ended' if pid is None else 'process %d ended' % pid


def _writable(state, silent):
    """Return True if the primary, all storages and a copy of each partition can take a write."""
    if state['cluster_state'] != WRITABLE or state['last_tid'] is None:
        return False
    taking_part = set(each['address'] for each in state['nodes']
                      if each['type'] == 'storage' and each['state'] == 'RUNNING')
    return not taking_part & set(silent) and holds_everything(state, ())


def _check(monitor):
    """Check once; after a failure return the previous result with its age."""
    try:
        monitor.look()
    except Exception:
        log.exception('this check failed')


def _handler(monitor):
    def handle(request):
        if request.get('do') != 'status':
            raise Refused('unknown request', 'known is: status')
        return monitor.status()
    return handle


def _node(text):
    address, _, folder = text.partition('=')
    return parse(address), folder or None


def main(arguments=None):
    parser = argparse.ArgumentParser(prog='python -m indico_zodbrepl.dataplane.neo.monitor')
    parser.add_argument('--folder', required=True)
    parser.add_argument('--admin', type=parse, required=True, metavar='HOST:PORT')
    parser.add_argument('--hung-after', type=float, default=10.0, metavar='SECONDS')
    parser.add_argument('--majority', type=int, metavar='MASTERS')
    parser.add_argument('--node', type=_node, action='append', default=[],
                        metavar='HOST:PORT[=FOLDER]')
    parser.add_argument('options', nargs=argparse.REMAINDER, metavar='NEOADMIN-OPTION')
    given = parser.parse_args(arguments)
    install()
    if not os.path.isdir(given.folder):
        parser.error('%s is no folder' % given.folder)
    logging.basicConfig(level=logging.INFO, format='%(asctime)s %(name)s %(message)s')
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    actions = ActionLog(os.path.join(given.folder, 'warden.jsonl'))
    child = None
    if given.options:
        child = Child(given.folder, given.options[1:], given.majority)
    monitor = Monitor(
        dict(given.node), given.admin, child, actions, given.hung_after,
        several=given.majority is not None)
    _check(monitor)
    socket = ControlSocket(given.folder, _handler(monitor))
    # Without a time limit Python 2 would wait in a way that no signal interrupts.
    while not ending.wait(INTERVAL):
        _check(monitor)
    socket.close()
    monitor.close()
    return 0


_KEPT = 100


class ActionLog(object):
    """Executes actions and logs them; any thread may call `latest`.

    Args:
        path: of the file to append to.
    """

    def __init__(self, path):
        self._path = path
        self._lock = threading.Lock()
        self._latest = collections.deque(_read(path), _KEPT)

    def latest(self, count):
        """Return the last `count` entries, oldest first: time, deed, address, reason, result."""
        with self._lock:
            return list(self._latest)[-count:]

    def do(self, deed, action, carry_out):
        """Call `carry_out(action)`, and log the result that it returns.

        An exception counts as a result too: the NEO monitor continues.
        """
        try:
            result = carry_out(action)
        except Exception as error:
            log.exception('%s %s', deed, action.address)
            result = 'failed: %s: %s' % (type(error).__name__, error)
        entry = {'time': time.time(), 'deed': deed, 'address': action.address,
                 'reason': action.reason, 'result': result}
        log.warning('%(deed)s %(address)s: %(reason)s: %(result)s', entry)
        with self._lock:
            self._latest.append(entry)
        _append(self._path, entry)


def _append(path, entry):
    line = json.dumps(entry, sort_keys=True) + '\n'
    try:
        # In one write, so that a reader sees whole lines.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:  # a full disk does not stop the NEO monitor
        log.error('%s: %s', path, error.strerror)


def _read(path):
    """Return the entries of a file, without incomplete lines, which a full disk leaves."""
    entries = []
    try:
        with open(path) as stream:
            for line in stream:
                try:
                    entries.append(json.loads(line))
                except ValueError:
                    log.warning('%s: not a whole line: %r', path, line[:80])
    except IOError:
        if os.path.exists(path):
            raise
    return entries


if __name__ == '__main__':
    sys.exit(main())
