"""Servers whose files reach the disk only when a test lets them, or fail to."""
from processes import FORKED

SLOW = '''
import os, sys, time
from indico_zodbrepl.dataplane.server import main as server
fsync = os.fsync
def waiting(descriptor):
    path = os.readlink('/proc/self/fd/%%d' %% descriptor)
    while os.path.exists(%r) and %r in path:
        time.sleep(0.01)
    fsync(descriptor)
os.fsync = waiting
sys.modules['ZODB.FileStorage.FileStorage'].fsync = waiting  # a class has the same name
os._exit(server.main(%r))
'''

FAILING = '''
import errno, os, sys
from indico_zodbrepl.dataplane.server import main as server
fsync = os.fsync
def failing(descriptor):
    path = os.readlink('/proc/self/fd/%%d' %% descriptor)
    if os.path.exists(%r) and path.endswith('Data.fs'):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    fsync(descriptor)
os.fsync = failing
sys.modules['ZODB.FileStorage.FileStorage'].fsync = failing
os._exit(server.main(%r))
'''


def start_failing(processes, node, mark):
    """Starts a node's server, whose data file can't be synchronised while another file exists.

    Args:
        mark: py.path.local of that file.
    """
    node.process = processes.start(
        [FORKED, '-c', FAILING % (str(mark), node.command()[3:])],
        node.name, node.port)
    node.ruok()


def start_slow(processes, node, brake, name='incoming-'):
    """Starts a node's server, in which some files do not reach the disk while another file exists.

    Args:
        brake: py.path.local of that file.
        name: how the names of those files begin; unless given, blobs that arrive.
    """
    node.process = processes.start(
        [FORKED, '-c', SLOW % (str(brake), name, node.command()[3:])],
        node.name, node.port)
    node.ruok()
