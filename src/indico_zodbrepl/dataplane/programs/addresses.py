"""Format addresses as in the configuration files of servers and clients."""
from __future__ import absolute_import


def format_address(address):
    """Return `host:port`, `[host]:port` for IPv6, or a socket's path."""
    if not isinstance(address, tuple):
        return address
    host, port = address[:2]
    return ('[%s]:%s' if ':' in host else '%s:%s') % (host, port)


def format_peer(transport):
    """Return the address of a twisted transport's other end as text."""
    peer = transport.getPeer()
    if hasattr(peer, 'host'):
        return format_address((peer.host, peer.port))
    return format_address(peer.name)
