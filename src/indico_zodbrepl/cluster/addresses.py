"""Whether an address is one of this machine's."""

from __future__ import annotations

import errno
import socket


def is_of_this_machine(host: str) -> bool:
    """Return True if a host name or address is one of this machine's: a socket can be bound to it.

    Raises OSError for a name that does not resolve.
    """
    family, kind, protocol, _name, where = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        try:
            probe.bind(where)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            return False
    return True
