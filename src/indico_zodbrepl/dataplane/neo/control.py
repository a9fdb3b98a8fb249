"""Send queries and orders to a NEO cluster through its admin node, each with a time limit.

NEO's own NeoCTL waits forever, exits the process if an order is denied, and
leaves it to its caller to tell 'Not ready' from success.
"""

from __future__ import absolute_import

import argparse

from indico_zodbrepl.dataplane.neo.library import import_neo
from indico_zodbrepl.dataplane.programs.clock import monotonic

import_neo()

from neo.lib.protocol import ClusterStates, NodeStates, NodeTypes  # noqa: E402
from neo.neoctl.neoctl import NeoCTL, NotReadyException  # noqa: E402

LIMIT = 3.0  # seconds


class Failed(Exception):
    """An order or query that was not executed; the text says why."""


class NotReady(Failed):
    """Nothing listens at the admin node's address, or it has no primary master."""


class NoAnswer(Failed):
    """There was no answer in time; an order may have been executed."""


class Refused(Failed):
    """The primary master refused; nothing has changed."""


class Control(object):
    """A connection to an admin node, opened on first use and again after a failure.

    Not thread-safe.

    Args:
        address: (host, port) of the admin node.
        limit: seconds for each query.
    """

    def __init__(self, address, limit=LIMIT):
        self._address = address
        self._limit = limit
        self._neoctl = None

    def close(self):
        """Close the connection; the next query opens another."""
        if self._neoctl is not None:
            self._neoctl.close()
            self._neoctl = None

    def ask(self, method, *arguments):
        """Call a method of NeoCTL by name and return what it returns.

        Raises NotReady, NoAnswer or Refused.
        """
        try:
            if self._neoctl is None:
                self._neoctl = NeoCTL(self._address)
            events = self._neoctl.em
            events.setTimeout(monotonic() + self._limit, self._too_late)
            answer = getattr(self._neoctl, method)(*arguments)
            events.setTimeout(None, None)
            return answer
        except NotReadyException as error:
            self.close()
            raise NotReady('the admin node at %s:%d is not ready: %s' % (
                self._address + (error,)))
        except (SystemExit, RuntimeError) as error:
            self.close()
            raise Refused('refused by the cluster: %s' % (error,))
        except NoAnswer:
            self.close()
            raise

    def _too_late(self):
        raise NoAnswer('the admin node at %s:%d did not answer within %g s' % (
            self._address + (self._limit,)))


def cluster_state(control):
    """Return the name of the cluster's state, such as 'RUNNING'."""
    return str(control.ask('getClusterState'))


def set_cluster_state(control, name):
    """Change the cluster's state to the one of this name; ValueError for an unknown one."""
    control.ask('setClusterState', _member(ClusterStates, name))


def node_id(control, address):
    """Return a storage's current id; ids follow the order of arrival, addresses stay.

    Raises Failed if the cluster knows no storage at this address.
    """
    for _, known, identity, _, _ in control.ask('getNodeList', NodeTypes.STORAGE):
        if known == address:
            return identity
    raise Failed('the cluster knows no storage at %s:%d' % address)


def storages(control):
    """Return [((host, port), id, name of its state)] of every known storage."""
    return [(address, identity, str(state)) for _, address, identity, state, _
            in control.ask('getNodeList', NodeTypes.STORAGE)]


def kill(control, address):
    """Take a storage out of service; its process exits if it works at all."""
    control.ask('_setNodeState', node_id(control, address), NodeStates.DOWN)


def drop(control, address):
    """Make the cluster forget a storage that is down."""
    control.ask('_setNodeState', node_id(control, address), NodeStates.UNKNOWN)


def _member(enumeration, name):
    for each in enumeration:
        if str(each) == name.upper():
            return each
    raise ValueError('%r is none of %s' % (
        name, ', '.join(str(each) for each in enumeration)))


def parse(text):
    """Return (host, port); argparse.ArgumentTypeError for anything else."""
    host, separator, port = text.rpartition(':')
    if not separator or not port.isdigit():
        raise argparse.ArgumentTypeError('%r is not HOST:PORT' % text)
    return host.strip('[]'), int(port)
