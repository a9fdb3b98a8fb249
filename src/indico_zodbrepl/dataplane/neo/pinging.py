"""Whether processes answer somebody who asks them for the first time."""
from __future__ import absolute_import

import time

from ..addresses import format_address
from .greeting import ANSWERS, REFUSES, SILENT, Greeting

_PAUSE = 0.05  # seconds


def ping(addresses, wait):
    """Asks every address at once, each over a connection of its own.

    Args:
        wait: seconds after which one that has not answered is silent.

    Returns: {'host:port': 'answers', 'refuses' (nothing listens) or 'silent'}.
    """
    greetings = dict((address, Greeting(address, _PAUSE)) for address in addresses)
    deadline = time.time() + wait
    for each in greetings.values():
        each.start()
    try:
        while time.time() < deadline and not all(
                each.state in (ANSWERS, REFUSES) for each in greetings.values()):
            time.sleep(_PAUSE)
        return dict((format_address(address), each.state or SILENT)
                    for address, each in greetings.items())
    finally:
        for each in greetings.values():
            each.close()
