"""A child process exits with its parent."""
import os
import subprocess
import sys

import pytest

from processes import PATIENCE, wait_for

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, '-m', 'indico_zodbrepl.dataplane.programs.child',
                          'indico_zodbrepl.dataplane.datafs', 'last', sys.argv[1]], stdin=subprocess.PIPE)
print(child.pid)
sys.stdout.flush()
time.sleep(3600)
"""


def is_alive(pid):
    try:
        with open('/proc/%d/stat' % pid) as stat:
            return stat.read().rpartition(')')[2].split()[0] not in 'ZX'
    except IOError:
        return False


@pytest.fixture
def fifo(tmpdir):
    """A file whose reader waits for ever."""
    path = str(tmpdir.join('Data.fs'))
    os.mkfifo(path)
    return path


def test_it_ends_when_who_started_it_is_killed(fifo):
    parent = subprocess.Popen([sys.executable, '-c', PARENT, fifo], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    parent.wait()
    wait_for(lambda: not is_alive(child), 'the end of the program', PATIENCE)
