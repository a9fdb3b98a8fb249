"""A node's storage server: ZEO with a repaired zc.zrs.

usage: python -m indico_zodbrepl.dataplane.server -C ZEO_CONF
           --cluster NAME --node NAME --epoch N [--reconnect-delay SECONDS]
           [--min-followers N]

-C FILE                     configuration, as for runzeo
--cluster NAME              shown in the answer to `ruok`, as are:
--node NAME
--epoch N                   a positive number
--reconnect-delay SECONDS   how long a secondary waits before it connects to
                            its upstream again; 1 unless given
--min-followers N           a primary with fewer connected followers for more
                            than 5 seconds refuses commits until they are back;
                            0 unless given

The server takes orders from `control.sock` beside the data file (see
`server_control`) and logs to standard error.  On SIGTERM, SIGINT or SIGHUP it hands its
followers what they lack, for at most 10 seconds, and ends.

exit status: 0 ended by a signal, 1 unforeseen error, 2 wrong command line or
configuration, 3 replication port not available, 4 storage port not available,
5 data file locked by another server, 6 data file unreadable or damaged,
7 libraries this server was not written for, 8 ended by force.
"""
import logging
import os
import socket
import sys
import time

import ZConfig
from zc.zrs.primary import Primary
from ZEO.runzeo import ZEOOptions, ZEOServer

from indico_zodbrepl.dataplane import (
    cut_transactions, replication_links, server_startup, zrs_repair)
from indico_zodbrepl.dataplane.addresses import format_address
from indico_zodbrepl.dataplane.control_socket import ControlSocket
from indico_zodbrepl.dataplane.drain import drain_and_close
from indico_zodbrepl.dataplane.role_change import leave_out_ids
from indico_zodbrepl.dataplane.server_control import ServerControl
from indico_zodbrepl.dataplane.server_log import log_to_stderr
from indico_zodbrepl.dataplane.server_startup import Refusal
from indico_zodbrepl.dataplane.storage_server import NodeStorageServer
from indico_zodbrepl.dataplane.termination import Termination

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

    def load_configfile(self):
        try:
            ZEOOptions.load_configfile(self)
        except ZConfig.ConfigurationError as error:
            self.usage('%s: %s' % (self.configfile, error))

    def usage(self, message):
        line = ' '.join(str(message).split())
        sys.stderr.write('zodbrepl server: %s\n' % line)
        sys.exit(server_startup.BAD_CONFIGURATION)


class NodeServer(ZEOServer):
    """Runs until a signal comes; `main()` of the base class is the frame."""

    storages = {}
    control = control_socket = None

    def setup_default_logging(self):
        if self.options.config_logger is None:
            log_to_stderr()

    def check_socket(self):
        if not isinstance(self.options.address, tuple):
            ZEOServer.check_socket(self)
        else:
            server_startup.require_free(
                self.options.family, self.options.address)

    def open_storages(self):
        self.storages = {}
        for opener in self.options.storages:
            server_startup.check_replication(opener)
        for opener in self.options.storages:
            storage = server_startup.open_storage(opener)
            self.storages[opener.name] = storage
            # The first epoch's primary has no predecessor.
            if self.options.epoch > 1 and isinstance(storage, Primary):
                leave_out_ids(storage)

    def setup_signals(self):
        """Leaves signals alone until there is something to drain."""

    def create_server(self):
        options = self.options
        try:
            self.server = NodeStorageServer(
                options.address, self.storages,
                options.cluster, options.node, options.epoch,
                options.min_followers,
                read_only=options.read_only,
                client_conflict_resolution=options.client_conflict_resolution,
                msgpack=bool(options.msgpack),
                invalidation_queue_size=options.invalidation_queue_size,
                invalidation_age=options.invalidation_age,
                transaction_timeout=options.transaction_timeout,
                ssl=options.ssl)
        except socket.error as error:
            raise server_startup.storage_port_refusal(options.address, error)
        self.control = ServerControl(self.server)
        self.control_socket = ControlSocket(self._folder(), self.control)
        Termination(self._stop_serving, END_LIMIT,
                    server_startup.FORCED).install()
        logger.info('node %s of cluster %s, epoch %d, serves on %s',
                    options.node, options.cluster, options.epoch,
                    format_address(self.server.addr))

    def _folder(self):
        opener = self.options.storages[0]
        path = server_startup.data_file(opener.config)
        return os.path.dirname(os.path.abspath(path))

    def _stop_serving(self):
        self.server.acceptor.event_loop.call_soon_threadsafe(
            self.server.stop_serving)

    def close_server(self):
        if self.control_socket is not None:
            self.control_socket.close()
            self.control.end()
        deadline = time.time() + DRAIN_LIMIT
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


def _not_negative(text):
    value = int(text)
    if value < 0:
        raise ValueError('it may not be below 0')
    return value


def main(arguments=None):
    """Runs the server; returns its exit status when it has ended.

    Args:
        arguments: the command line; that of the process unless given.
    """
    options = NodeOptions()
    options.realize(arguments, 'zodbrepl server')
    server = NodeServer(options)
    try:
        zrs_repair.apply()
        cut_transactions.apply()
        replication_links.install(options.reconnect_delay)
        server.main()
    except zrs_repair.UnknownVersion as error:
        return _refuse(options, server_startup.WRONG_LIBRARY, error)
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


if __name__ == '__main__':
    exit_status = main()
    logging.shutdown()
    # A thread that packs would be waited for; what it has written so far is
    # a file beside the data file, which the next pack writes anew.
    os._exit(exit_status)
