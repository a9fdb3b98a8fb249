"""A node's storage server: ZEO with a repaired zc.zrs.

usage: python -m indico_zodbrepl.dataplane.server.main -C ZEO_CONF
           --cluster NAME --node NAME --epoch N [--reconnect-delay SECONDS]
           [--min-followers N] [--leased] [--synchronous K]
           [--synchronous-level LEVEL] [--synchronous-timeout SECONDS]
           [--synchronous-alone refuse|degrade] [--alone-when-told]
           [--forward-acknowledgements] [--members FILE]

-C FILE                     configuration, as for runzeo
--cluster NAME              shown in the answer to `ruok`, as are:
--node NAME
--epoch N                   a positive number
--reconnect-delay SECONDS   how long a secondary waits before it connects to
                            its upstream again; 1 unless given
--min-followers N           a primary with fewer connected followers for more
                            than 5 seconds refuses commits until they are back;
                            0 unless given
--leased                    a primary refuses commits until the host's
                            automation has given it a lease, and again at the
                            end of the lease
--synchronous K             a primary acknowledges a commit, and shows it to
                            other clients, when K secondaries have confirmed
                            it; 0 unless given
--synchronous-level LEVEL   what they have done with it then: "receive" (it is
                            in their memory), "write" (in their kernel) or
                            "fsync" (on their disk), which is the default
--synchronous-timeout SECONDS
                            how long commits wait for them; 10 unless given
--synchronous-alone WHAT    then commits are refused ("refuse", the default),
                            or go on without secondaries ("degrade") until
                            these are up to date again
--alone-when-told           they go on only after the order "alone"
--forward-acknowledgements  a relay forwards what its own followers confirm
--members FILE              the nodes whose confirmations count (see
                            `zrs.members`); all unless given

The server takes orders from `control.sock` beside the data file (see
`server_control`) and logs to standard error.  On SIGTERM, SIGINT or SIGHUP it hands its
followers what they lack, for at most 10 seconds, and ends.

exit status: 0 ended by a signal, 1 unforeseen error, 2 wrong command line or
configuration, 3 replication port not available, 4 storage port not available,
5 data file locked by another server, 6 data file unreadable or damaged,
7 libraries this server was not written for, 8 ended by force, 9 the disk can't
synchronise the data file: a new server writes the last transaction again.
"""
from __future__ import absolute_import

import errno
import logging
import os
import socket
import sys

import zc.lockfile
import zc.zrs.primary
import ZConfig
from twisted.internet.error import CannotListenError
from zc.zrs.primary import Primary
from ZODB.FileStorage.FileStorage import FileStorageError
from ZODB.FileStorage.format import CorruptedError

from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.programs.clock import install, monotonic
from indico_zodbrepl.dataplane.programs.distributions import without_pkg_resources

with without_pkg_resources():
    from ZEO.runzeo import ZEOOptions, ZEOServer

    from indico_zodbrepl.dataplane.server.storage_server import NodeStorageServer

from indico_zodbrepl.dataplane.datafs import blob_files
from indico_zodbrepl.dataplane.server import last_transaction
from indico_zodbrepl.dataplane.server.acknowledgement_states import DEGRADE, REFUSE, Settings
from indico_zodbrepl.dataplane.server.control import ServerControl
from indico_zodbrepl.dataplane.server.control_socket import ControlSocket
from indico_zodbrepl.dataplane.server.failed_finish import end_after_it
from indico_zodbrepl.dataplane.server.log import log_to_stderr
from indico_zodbrepl.dataplane.server.role_change import leave_out_ids
from indico_zodbrepl.dataplane.server.shutdown import Termination, drain_and_close
from indico_zodbrepl.dataplane.zrs import links, repairs
from indico_zodbrepl.dataplane.zrs.confirmations import FSYNC, LEVELS
from indico_zodbrepl.dataplane.zrs.confirming import Identity
from indico_zodbrepl.dataplane.zrs.links import require_listening
from indico_zodbrepl.dataplane.zrs.members import Members

logger = logging.getLogger('zodbrepl.server')

# seconds for the followers, and for everything from the signal to the end
DRAIN_LIMIT = 10
END_LIMIT = 15


class NodeOptions(ZEOOptions):

    __doc__ = __doc__

    def __init__(self):
        ZEOOptions.__init__(self)
        self.add('cluster', None, None, 'cluster=', required='give --cluster')
        self.add('node', None, None, 'node=', required='give --node')
        self.add('epoch', None, None, 'epoch=', _positive(int),
                 required='give --epoch')
        self.add('reconnect_delay', None, None, 'reconnect-delay=',
                 _positive(float), default=1.0)
        self.add('min_followers', None, None, 'min-followers=',
                 _not_negative, default=0)
        self.add('leased', None, None, 'leased', flag=True, default=False)
        self.add('synchronous', None, None, 'synchronous=', _not_negative, default=0)
        self.add('synchronous_level', None, None, 'synchronous-level=',
                 _one_of(LEVELS), default=FSYNC)
        self.add('synchronous_timeout', None, None, 'synchronous-timeout=',
                 _positive(float), default=10.0)
        self.add('synchronous_alone', None, None, 'synchronous-alone=',
                 _one_of((REFUSE, DEGRADE)), default=REFUSE)
        self.add('alone_when_told', None, None, 'alone-when-told', flag=True, default=False)
        self.add('forward_acknowledgements', None, None, 'forward-acknowledgements',
                 flag=True, default=False)
        self.add('members', None, None, 'members=', Members, default=None)

    def load_configfile(self):
        try:
            ZEOOptions.load_configfile(self)
        except ZConfig.ConfigurationError as error:
            self.usage('%s: %s' % (self.configfile, error))

    def usage(self, message):
        line = ' '.join(str(message).split())
        sys.stderr.write('zodbrepl server: %s\n' % line)
        sys.exit(BAD_CONFIGURATION)


class NodeServer(ZEOServer):
    """The server, which runs until a signal comes; `main()` of the base class is the frame."""

    storages = {}
    server = control = control_socket = None

    def setup_default_logging(self):
        if self.options.config_logger is None:
            log_to_stderr()

    def check_socket(self):
        if not isinstance(self.options.address, tuple):
            ZEOServer.check_socket(self)
        else:
            require_free(
                self.options.family, self.options.address)

    def open_storages(self):
        self.storages = {}
        for opener in self.options.storages:
            check_replication(opener)
            if self.options.synchronous and not hasattr(opener.config, 'replicate_to'):
                raise Refusal(BAD_CONFIGURATION, 'storage %s: nobody can follow it, and '
                              '--synchronous is given' % opener.name)
        for opener in self.options.storages:
            storage = open_storage(opener)
            self.storages[opener.name] = storage
            end_after_it(storage, FINISH_FAILED)
            # The first epoch's primary has no predecessor.
            if self.options.epoch > 1 and isinstance(storage, Primary):
                leave_out_ids(storage)

    def setup_signals(self):
        """Install no handlers yet: there is nothing to drain."""

    def create_server(self):
        options = self.options
        try:
            self.server = NodeStorageServer(
                options.address, self.storages,
                options.cluster, options.node, options.epoch,
                options.min_followers, self._synchronous(), options.alone_when_told,
                is_leased=options.leased,
                read_only=options.read_only,
                client_conflict_resolution=options.client_conflict_resolution,
                msgpack=bool(options.msgpack),
                invalidation_queue_size=options.invalidation_queue_size,
                invalidation_age=options.invalidation_age,
                transaction_timeout=options.transaction_timeout,
                ssl=options.ssl)
        except socket.error as error:
            raise storage_port_refusal(options.address, error)
        self.control = ServerControl(self.server)
        self.control_socket = ControlSocket(self._folder(), self.control)
        Termination(self._stop_serving, END_LIMIT,
                    FORCED).install()
        logger.info('node %s of cluster %s, epoch %d, serves on %s',
                    options.node, options.cluster, options.epoch,
                    format_address(self.server.addr))

    def _synchronous(self):
        options = self.options
        return Settings(options.synchronous, options.synchronous_level,
                        options.synchronous_timeout, options.synchronous_alone)

    def identity(self):
        """Return what this node says of itself when it confirms transactions."""
        return Identity(self.options.node, self._known_epoch,
                        self.options.forward_acknowledgements)

    def _known_epoch(self):
        # It follows before it serves.
        return self.options.epoch if self.server is None else self.server.known_epoch

    def _folder(self):
        opener = self.options.storages[0]
        path = data_file(opener.config)
        return os.path.dirname(os.path.abspath(path))

    def _stop_serving(self):
        self.server.acceptor.event_loop.call_soon_threadsafe(
            self.server.stop_serving)

    def close_server(self):
        if self.control_socket is not None:
            self.control_socket.close()
            self.control.end()
        deadline = monotonic() + DRAIN_LIMIT
        for storage in self.storages.values():
            drain_and_close(storage, deadline)
        logger.info('ended')


def _positive(kind):
    def convert(text):
        value = kind(text)
        if not value > 0:
            raise ValueError('it has to be above 0')
        return value
    return convert


def _one_of(words):
    def convert(text):
        if text not in words:
            raise ValueError('it has to be one of %s' % ', '.join(words))
        return text
    return convert


def _not_negative(text):
    value = int(text)
    if value < 0:
        raise ValueError('it may not be below 0')
    return value


def main(arguments=None):
    """Run the server; return its exit status after its end.

    Args:
        arguments: the command line; that of the process unless given.
    """
    install()
    options = NodeOptions()
    options.realize(arguments, 'zodbrepl server')
    server = NodeServer(options)
    try:
        repairs.apply()
        repairs.repair_last_tid()
        blob_files.install()
        last_transaction.install()
        links.install(options.reconnect_delay, server.identity(), options.members)
        server.main()
    except repairs.UnknownVersion as error:
        return _refuse(options, WRONG_LIBRARY, error)
    except Refusal as refusal:
        return _refuse(options, refusal.status, refusal)
    return 0


def _refuse(options, status, error):
    if not logging.getLogger().handlers:
        log_to_stderr()
    logger.critical('%s', error)
    if options.config_logger is not None:
        sys.stderr.write('zodbrepl server: %s\n' % error)
    return status


# exit statuses; 2 is that of a wrong command line or configuration
BAD_CONFIGURATION = 2
REPLICATION_PORT = 3
STORAGE_PORT = 4
DATA_LOCKED = 5
DATA_UNREADABLE = 6
WRONG_LIBRARY = 7
FORCED = 8
FINISH_FAILED = 9


class Refusal(Exception):
    """The server refuses to start; `status` is its exit status."""

    def __init__(self, status, message):
        Exception.__init__(self, message)
        self.status = status


def require_free(family, address):
    """Raise Refusal if a TCP address cannot be bound."""
    probe = socket.socket(family, socket.SOCK_STREAM)
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
    except socket.error as error:
        raise storage_port_refusal(address, error)
    finally:
        probe.close()


def storage_port_refusal(address, error):
    """Return the Refusal for an address that cannot serve clients."""
    message = 'cannot serve clients on %s: %s' % (
        format_address(address), error.strerror or error)
    if error.errno == errno.EADDRINUSE:
        message += '; another program, perhaps this node itself, has the port'
    return Refusal(STORAGE_PORT, message)


def open_storage(opener):
    """Open one storage of the configuration.

    Args:
        opener: the storage's section, as ZConfig made it.

    Returns the storage, which listens for its followers if required.
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
    except last_transaction.NotOnDisk as error:
        raise Refusal(FINISH_FAILED, error)
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
    """Return the path of a storage section's data file, or None."""
    while hasattr(config, 'base'):
        config = config.base.config
    return getattr(config, 'path', None)


def check_replication(opener):
    """Raise Refusal for addresses that zc.zrs cannot work with."""
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


if __name__ == '__main__':
    exit_status = main()
    logging.shutdown()
    # Python would wait for a packing thread.  Its unfinished output is a file beside the data
    # file, which the next pack overwrites.
    os._exit(exit_status)
