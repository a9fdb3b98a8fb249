"""Real server processes for tests: free ports, start, wait, stop, kill.

Only processes started here are ever signalled, by process id.
"""
import contextlib
import errno
import glob
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import time

from forks import forker

FORKED = 'python with what storage servers import'
FORKED_INDICO = 'python with Indico'
# Generous: the machine that runs the tests may be busy.
PATIENCE = 180.0
# Below the ports that the kernel gives to outgoing connections; other suites have others.
FIRST_PORT = int(os.environ.get('ZODBREPL_TEST_PORTS', '10000'))
PORTS = range(FIRST_PORT, FIRST_PORT + 1500)
_untried_ports = itertools.cycle(random.sample(PORTS, len(PORTS)))


def free_ports(count):
    """Returns `count` TCP ports of 127.0.0.1 that nothing uses; no port is given twice."""
    return list(itertools.islice(itertools.ifilter(_is_free, _untried_ports), count))


def _is_free(port):
    with contextlib.closing(socket.socket()) as candidate:
        try:
            candidate.bind(('127.0.0.1', port))
        except socket.error:
            return False
    return True


def wait_until_stopped(pids):
    """Waits until the kernel has stopped all threads of processes that were sent SIGSTOP."""
    wait_for(lambda: all(state in 'TtZX' for pid in pids for state in _thread_states(pid)),
             'the stop of %r' % (pids,))


def _thread_states(pid):
    for path in glob.glob('/proc/%d/task/*/stat' % pid):
        fields = _stat(path)
        if fields:
            yield fields[0]


def _group(leader):
    """The processes of a process group."""
    found = dict((int(path.split('/')[2]), _stat(path)) for path in glob.glob('/proc/[0-9]*/stat'))
    return [pid for pid, fields in found.items() if fields and int(fields[2]) == leader]


def _stat(path):
    """The fields of proc_pid_stat(5) from the state on; None of a process that is gone."""
    try:
        with open(path) as stat:
            return stat.read().rpartition(')')[2].split()
    except IOError as error:
        if error.errno not in (errno.ENOENT, errno.ESRCH):
            raise
        return None


def wait_for(condition, what, seconds=PATIENCE):
    """Polls until `condition()` is true and returns its value; AssertionError after `seconds`."""
    deadline = time.time() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.time() > deadline:
            raise AssertionError('%s: not within %s seconds' % (what, seconds))
        time.sleep(0.05)


def listens(port):
    """Tells whether something accepts connections on this port of 127.0.0.1."""
    probe = socket.socket()
    probe.settimeout(1.0)
    try:
        probe.connect(('127.0.0.1', port))
    except socket.error:
        return False
    finally:
        probe.close()
    return True


class Process(object):
    """One process started by a test; its output goes to a log file.

    Args:
        args: the command as a list; 'python' stands for this interpreter, `FORKED` for one that
            has imported what a storage server does, unless its environment is another;
            `FORKED_INDICO` for one that has imported Indico.
        log: path of the file that gets standard output and error.
        env: added to the environment.
    """

    def __init__(self, args, log, env=None):
        libraries = {FORKED: None if env else 'server', FORKED_INDICO: 'indico'}.get(args[0])
        if args[0] in ('python', FORKED, FORKED_INDICO):
            args = [sys.executable] + list(args[1:])
        self.args = args
        self.log = str(log)
        env = dict(os.environ, **(env or {}))
        if libraries:
            self._popen = forker(libraries, env).start(args[1:], env, log, log)
        else:
            with open(self.log, 'ab') as output:
                self._popen = subprocess.Popen(
                    args, stdout=output, stderr=subprocess.STDOUT, env=env, preexec_fn=os.setsid)
        self.pid = self._popen.pid

    def output(self):
        with open(self.log, 'rb') as log:
            return log.read()

    def is_running(self):
        return self._popen.poll() is None

    def wait_for_port(self, port):
        """Waits until the port listens; AssertionError with the log if the process ends first."""
        def ready():
            if not self.is_running():
                raise AssertionError('%r ended:\n%s' % (self.args, self.output()))
            return listens(port)
        wait_for(ready, 'port %d of %r' % (port, self.args))

    def wait(self, seconds=PATIENCE):
        """Waits for the end and returns the exit status."""
        wait_for(lambda: not self.is_running(), 'the end of %r' % (self.args,), seconds)
        return self._popen.returncode

    def signal(self, number):
        """Signals the process and the children of its session."""
        try:
            os.killpg(self.pid, number)
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise

    def pause(self):
        """Freezes it; nothing of it runs when this returns."""
        self.signal(signal.SIGSTOP)
        wait_until_stopped(_group(self.pid))

    def resume(self):
        self.signal(signal.SIGCONT)

    def terminate(self):
        """Asks the process to end and waits for it; returns its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        """SIGKILL, and waits until the process is gone."""
        self.signal(signal.SIGKILL)
        return self.wait()


class Processes(object):
    """Starts processes for one test and ends every one of them in `close()`.

    Args:
        folder: a py.path.local for logs.
    """

    def __init__(self, folder):
        self._folder = folder
        self._started = []

    def start(self, args, name='process', port=None, env=None):
        """Starts a command (see `Process`), waits for its `port` if given, returns the Process."""
        log = self._folder.join('%s-%d.log' % (name, len(self._started)))
        process = Process(args, log, env)
        self._started.append(process)
        if port is not None:
            process.wait_for_port(port)
        return process

    def close(self):
        for process in self._started:
            process.signal(signal.SIGCONT)
            process.signal(signal.SIGKILL)
        for process in self._started:
            process.wait()
