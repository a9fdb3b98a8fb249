"""Ask the agents of a cluster's hosts for the newest epoch.

A promotion raises the record of the epoch on a majority of the hosts before the new primary
accepts writes.  So the newest record of any majority names the only primary that may do so.
"""
from __future__ import absolute_import

import collections
import httplib
import json
import os
import socket
import ssl

from indico_zodbrepl.dataplane.client.status import recorded_epoch

LIMIT = 1.0  # seconds for each step of an answer

# primary: a node's name; empty with a backend that has no epochs.
Epoch = collections.namedtuple('Epoch', 'number primary')


class Peers(object):
    """The hosts of a cluster, seen from this one.

    Args:
        agents: the other hosts' agents: name of the host to (host, port).
        tls: folder with the certificate of this host and the authorities.
        record: path of this host's record.
    """

    def __init__(self, agents, tls, record):
        self._agents = agents
        self._tls = tls
        self._record = record

    def newest(self):
        """Return the newest Epoch that a majority of the hosts knows; None without a majority."""
        found = []
        own = recorded_epoch(self._record)
        if own['epoch'] is not None or not os.path.exists(self._record):
            found.append(Epoch(own['epoch'] or 0, own['epoch_primary'] or ''))
        needed = (len(self._agents) + 1) // 2 + 1
        for name, address in sorted(self._agents.items()):
            if len(found) == needed:
                break
            try:
                answer = self._ask(name, address)
                found.append(Epoch(int(answer['epoch']), answer['primary']))
            except (IOError, httplib.HTTPException, ValueError, KeyError, TypeError):
                continue  # it does not answer, or its record can't be read
        return max(found) if len(found) == needed else None

    def _ask(self, name, address):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS)
        context.options |= ssl.OP_NO_SSLv2 | ssl.OP_NO_SSLv3 | ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = True
        context.load_verify_locations(os.path.join(self._tls, 'ca.pem'))
        context.load_cert_chain(os.path.join(self._tls, 'host.pem'))
        connection = httplib.HTTPConnection(*address)
        connection.sock = socket.create_connection(address, LIMIT)
        try:
            # The name in the certificate of a host.
            connection.sock = context.wrap_socket(connection.sock, server_hostname=name + '.host')
            connection.request('GET', '/')
            response = connection.getresponse()
            return json.loads(response.read()) if response.status == httplib.OK else {}
        finally:
            connection.close()
