"""Servers whose files reach the disk only when a test lets them."""
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
