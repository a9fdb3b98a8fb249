"""Import NEO's package from any thread, with timers that ignore changes of the system clock.

On import NEO installs handlers for real-time signals, for its developers.  Python
permits that only in the main thread; elsewhere the import fails.  Indico opens its
database in another thread.
"""
from __future__ import absolute_import

import signal
import socket
import threading

from indico_zodbrepl.dataplane.programs.clock import MonotonicTime, monotonic

SILENT_HOST = 10  # seconds
_TCP_USER_TIMEOUT = 18  # linux/tcp.h; Python 2.7 has no name for it


def import_neo():
    """Import NEO's client without its signal handlers, in any thread."""
    set_handler = signal.signal

    def only_in_the_main_thread(number, handler):
        if isinstance(threading.current_thread(), threading._MainThread):
            return set_handler(number, handler)
        return None
    signal.signal = only_in_the_main_thread
    try:
        import neo.client.Storage
        import neo.client.app
        import neo.lib.connection
        import neo.lib.connector
        import neo.lib.event
    finally:
        signal.signal = set_handler
    for module in neo.lib.connection, neo.lib.connector, neo.lib.event:
        module.time = monotonic
    neo.client.app.time = MonotonicTime
    return neo


def notice_silent_hosts():
    """Close connections of this process to a host that is silent for SILENT_HOST seconds.

    NEO waits 90 seconds, and 15 minutes for the acknowledgement of data.  A frozen process is not
    noticed: its kernel answers.
    """
    from neo.lib.connector import SocketConnector
    idle, count, interval = SILENT_HOST // 2, 2, SILENT_HOST // 4
    SocketConnector.KEEPALIVE = idle, count, interval
    make = SocketConnector.__new__

    def make_noticing(cls, *arguments, **named):
        connector = make(cls, *arguments, **named)
        connector.socket.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, 1000 * SILENT_HOST)
        return connector

    SocketConnector.__new__ = staticmethod(make_noticing)
