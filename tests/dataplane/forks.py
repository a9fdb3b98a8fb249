"""Python programs that run in forks of a process that has imported their libraries; see forking.py.

A program here is a process like any other: it has its own session, and signals reach it. It differs
from one that Python starts only in what is imported already.
"""
import atexit
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading

PATIENCE = 180.0
_forkers = {}


def forker(libraries, env=None):
    """Returns the `Forker` with these libraries (see forking.py), started when first asked for.

    Args:
        env: its environment, if not this one. One is started for each PYTHONPATH.
    """
    env = dict(os.environ) if env is None else env
    key = libraries, env.get('PYTHONPATH')
    if key not in _forkers:
        _forkers[key] = Forker(libraries, env)
        atexit.register(_forkers[key].close)
    return _forkers[key]


class Forker(object):
    """A process that has imported libraries and forks for each program."""

    def __init__(self, libraries, env):
        self._popen = subprocess.Popen(
            [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'forking.py'),
             libraries], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, close_fds=True,
            preexec_fn=os.setsid)
        self._lock = threading.RLock()
        self._received = ''
        self._started = []
        self._ended = {}

    def start(self, args, env, out, err):
        """Starts Python with these arguments; returns the `Forked`."""
        with self._lock:
            self._popen.stdin.write(json.dumps({
                'args': [str(each) for each in args], 'env': env, 'cwd': os.getcwd(),
                'out': str(out), 'err': str(err)}) + '\n')
            self._popen.stdin.flush()
            while not self._started:
                assert self._receive(PATIENCE), 'no fork for %r' % (args,)
            return Forked(self, self._started.pop())

    def run(self, args, env):
        """Runs Python to its end; returns (exit status, standard output, standard error)."""
        folder = tempfile.mkdtemp()
        try:
            out, err = [os.path.join(folder, each) for each in ('out', 'err')]
            status = self.start(args, env, out, err).wait()
            with open(out) as output, open(err) as error:
                return status, output.read(), error.read()
        finally:
            shutil.rmtree(folder)

    def ended(self, pid, seconds=0):
        """Returns the status of a fork that has ended, as of os.waitpid; otherwise None."""
        with self._lock:
            while pid not in self._ended and self._receive(seconds):
                pass
            return self._ended.get(pid)

    def _receive(self, seconds):
        """Reads what the process tells; returns False if it is nothing for so many seconds."""
        if not select.select([self._popen.stdout], [], [], seconds)[0]:
            return False
        more = os.read(self._popen.stdout.fileno(), 65536)
        assert more, 'the process that forks has ended'
        lines = (self._received + more).split('\n')
        self._received = lines.pop()
        for line in lines:
            told = json.loads(line)
            if told[0] == 'started':
                self._started.append(told[1])
                self._ended.pop(told[1], None)  # of another process that had this number
            else:
                self._ended[told[1]] = told[2]
        return True

    def close(self):
        self._popen.stdin.close()
        self._popen.wait()
        self._popen.stdout.close()


class Forked(object):
    """A program that was started; it has the attributes and methods of a Popen that tests use."""

    def __init__(self, forker, pid):
        self._forker = forker
        self.pid = pid
        self.returncode = None

    def poll(self):
        return self._take(0)

    def _take(self, seconds):
        if self.returncode is None:
            status = self._forker.ended(self.pid, seconds)
            if status is not None:
                self.returncode = (-os.WTERMSIG(status) if os.WIFSIGNALED(status)
                                   else os.WEXITSTATUS(status))
        return self.returncode

    def wait(self):
        while self._take(0.1) is None:
            pass
        return self.returncode
