"""Importing NEO's package from whichever thread comes first.

It sets handlers of real-time signals when it is imported, for its developers,
and Python lets only the main thread do that: elsewhere the import fails.
Indico opens its database in another thread.
"""
from __future__ import absolute_import

import signal
import threading


def import_neo():
    """Imports NEO's client; its signal handlers are left out, so any thread may call this."""
    set_handler = signal.signal

    def only_in_the_main_thread(number, handler):
        if isinstance(threading.current_thread(), threading._MainThread):
            return set_handler(number, handler)
        return None
    signal.signal = only_in_the_main_thread
    try:
        import neo.client.Storage
    finally:
        signal.signal = set_handler
    return neo
