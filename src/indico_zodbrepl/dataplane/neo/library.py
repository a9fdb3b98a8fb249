"""Import NEO's package from any thread, with timers that ignore changes of the system clock.

On import NEO installs handlers for real-time signals, for its developers.  Python
permits that only in the main thread; elsewhere the import fails.  Indico opens its
database in another thread.
"""
from __future__ import absolute_import

import signal
import threading

from indico_zodbrepl.dataplane.programs.clock import MonotonicTime, monotonic


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
