"""A real ZEO server for a question that needs to kill it; it never outlives its process."""
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

CONF = '''
<zeo>
  address 127.0.0.1:{port}
</zeo>
<filestorage 1>
  path {path}
</filestorage>
'''
PR_SET_PDEATHSIG = 1


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server(object):
    """Serves Data.fs of the current folder on the given port of 127.0.0.1."""

    def __init__(self, port):
        self.port = port
        self._process = None
        with open('zeo.conf', 'w') as conf:
            conf.write(CONF.format(port=port, path=os.path.abspath('Data.fs')))

    def start(self):
        with open('zeo.log', 'a') as log:
            self._process = subprocess.Popen(
                [sys.executable, '-m', 'ZEO.runzeo', '-C', 'zeo.conf'],
                stdout=log, stderr=log, preexec_fn=_die_with_parent)
        deadline = time.time() + 60
        while not self._listens():
            assert self._process.poll() is None, open('zeo.log').read()
            assert time.time() < deadline
            time.sleep(0.05)

    def _listens(self):
        probe = socket.socket()
        try:
            return probe.connect_ex(('127.0.0.1', self.port)) == 0
        finally:
            probe.close()

    def kill(self):
        self._process.kill()
        self._process.wait()
