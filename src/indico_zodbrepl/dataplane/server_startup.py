"""What keeps a storage server from starting, each in one clear line."""
import errno
import socket

import zc.lockfile
import zc.zrs.primary
from ZODB.FileStorage.FileStorage import FileStorageError
from ZODB.FileStorage.format import CorruptedError
from twisted.internet.error import CannotListenError

from indico_zodbrepl.dataplane.addresses import format_address
from indico_zodbrepl.dataplane.replication_links import require_listening

# exit statuses; 2 is that of a wrong command line or configuration
BAD_CONFIGURATION = 2
REPLICATION_PORT = 3
STORAGE_PORT = 4
DATA_LOCKED = 5
DATA_UNREADABLE = 6
WRONG_LIBRARY = 7
FORCED = 8


class Refusal(Exception):
    """The server does not start; `status` is its exit status."""

    def __init__(self, status, message):
        Exception.__init__(self, message)
        self.status = status


def require_free(family, address):
    """Raises Refusal when a TCP address cannot be bound."""
    probe = socket.socket(family, socket.SOCK_STREAM)
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
    except socket.error as error:
        raise storage_port_refusal(address, error)
    finally:
        probe.close()


def storage_port_refusal(address, error):
    """Returns the Refusal for an address that clients cannot be served at."""
    message = 'cannot serve clients on %s: %s' % (
        format_address(address), error.strerror or error)
    if error.errno == errno.EADDRINUSE:
        message += '; another program, perhaps this node itself, has the port'
    return Refusal(STORAGE_PORT, message)


def open_storage(opener):
    """Opens one storage of the configuration.

    Args:
        opener: the storage's section, as ZConfig made it.

    Returns the storage, which listens for its followers if it has to.
    Raises Refusal.
    """
    path = data_file(opener.config)
    try:
        storage = opener.open()
    except zc.lockfile.LockError:
        raise Refusal(DATA_LOCKED, '%s is locked by another process (%s): '
                      'only one server may have it open' % (
                          path, _holder(path + '.lock')))
    except (FileStorageError, CorruptedError) as error:
        raise Refusal(DATA_UNREADABLE, '%s is damaged or no ZODB data file: '
                      '%s: %s' % (path, type(error).__name__, error))
    except EnvironmentError as error:
        raise Refusal(DATA_UNREADABLE, 'cannot open %s: %s' % (
            error.filename or path, error.strerror or error))
    try:
        _require_listening(storage)
    except Refusal:
        storage.close()
        raise
    return storage


def data_file(config):
    """Returns the path of the data file a storage section names, or None."""
    while hasattr(config, 'base'):
        config = config.base.config
    return getattr(config, 'path', None)


def check_replication(opener):
    """Raises Refusal for addresses that zc.zrs cannot work with."""
    config = opener.config
    if not hasattr(config, 'replicate_to'):
        return
    listen, upstream = config.replicate_to, config.replicate_from
    if listen is None and upstream is None:
        raise Refusal(BAD_CONFIGURATION, 'storage %s: give replicate-to, '
                      'replicate-from or both' % opener.name)
    if listen and upstream and listen.address == upstream.address:
        raise Refusal(BAD_CONFIGURATION, 'storage %s: replicate-to and '
                      'replicate-from are the same address' % opener.name)


def _require_listening(storage):
    while isinstance(storage, zc.zrs.primary.Base):
        if isinstance(storage, zc.zrs.primary.Primary):
            try:
                require_listening(storage)
            except CannotListenError as error:
                raise Refusal(REPLICATION_PORT, 'cannot listen for followers '
                              'on %s: %s; nothing is served, because nothing '
                              'would be replicated' % (
                                  format_address(storage._addr),
                                  error.socketError))
        storage = storage._storage


def _holder(lock_path):
    with open(lock_path) as lock:
        pid = lock.read().strip()
    return 'process %s' % pid if pid else 'process unknown'
