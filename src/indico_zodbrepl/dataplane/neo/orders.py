"""The orders that an operator can give a NEO cluster, without those that destroy data.

Each function takes a `control.Control`, returns a dict for JSON and raises
`control.Failed`.  Storages are named by address, (host, port), because their ids follow the order
of arrival.
"""
from __future__ import absolute_import

import time

from indico_zodbrepl.dataplane.neo import control
from indico_zodbrepl.dataplane.neo.control import Failed, NotReady, Refused
from indico_zodbrepl.dataplane.neo.library import import_neo
from indico_zodbrepl.dataplane.neo.policy import holds_everything
from indico_zodbrepl.dataplane.neo.state import describe
from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.programs.clock import monotonic

import_neo()

from neo.lib.protocol import ZERO_TID  # noqa: E402

_PAUSE = 0.2  # seconds


def start(ask, storages, wait, new=True):
    """Start a new cluster once all `storages` are connected; wait for one that has data.

    A cluster with data starts automatically once its storages are connected.  Forcing a start with
    fewer storages could bring back old data as the newest, so that is a separate order,
    `start_with_what_is_there`.

    Args:
        storages: addresses of all storages of the cluster.
        wait: seconds to wait for them, and for the cluster to run.
        new: True if the cluster may be new.  Otherwise it is an error if all storages are empty,
            as when their disks are not mounted.

    Returns: started: True if it was new; cluster_state.
    """
    deadline = monotonic() + wait
    missing = 'the admin node'
    while True:
        try:
            if control.cluster_state(ask) == 'RUNNING':
                return {'started': False, 'cluster_state': 'RUNNING'}
            missing = _missing(ask, storages)
            if not missing and ask.ask('getRecovery')[0] is None:
                if not new:
                    raise Failed('all storages are empty, and the cluster is not new')
                ask.ask('startCluster')
                return {'started': True, 'cluster_state': _wait_until_running(ask, deadline)}
        except (NotReady, Refused) as failure:
            # Refused: a storage is just connecting.
            missing = str(failure)
        if monotonic() >= deadline:
            raise _does_not_run(missing)
        time.sleep(_PAUSE)


def wait_until_running(ask, storages, wait):
    """Wait until the cluster runs, without an order; `storages` and `wait` as for `start`."""
    deadline = monotonic() + wait
    while True:
        try:
            if control.cluster_state(ask) == 'RUNNING':
                return {'started': False, 'cluster_state': 'RUNNING'}
            missing = _missing(ask, storages)
        except (NotReady, Refused) as failure:
            missing = str(failure)
        if monotonic() >= deadline:
            raise _does_not_run(missing)
        time.sleep(_PAUSE)


def start_with_what_is_there(ask, wait):
    """Start a cluster although storages are missing; the data that only they have are lost."""
    ask.ask('startCluster')
    return {'started': True, 'cluster_state': _wait_until_running(ask, monotonic() + wait)}


def check(ask, reference):
    """Compare every partition of the `reference` storage with its other copies.

    Copies that differ from the reference are marked as corrupted.  Without a reference
    NEO marks both copies, and the cluster stops.

    Returns: partitions: the number being compared.
    """
    table = _everything_there(ask, 'compare copies')
    name = format_address(reference)
    offsets = [offset for offset, row in enumerate(table['rows']) if name in row]
    if not offsets:
        raise Failed('%s holds no partition' % name)
    identity = control.node_id(ask, reference)
    ask.ask('checkReplicas', dict.fromkeys(offsets, identity), ZERO_TID, None)
    return {'partitions': len(offsets), 'reference': name}


def kill(ask, address):
    """Take a storage out of service; refused unless the others hold everything."""
    _require_spare(ask, address)
    control.kill(ask, address)
    return {'killed': format_address(address)}


def drop(ask, address):
    """Make the cluster forget a storage, whose process then empties its database and exits.

    Refused unless the others hold everything.
    """
    _require_spare(ask, address)
    control.drop(ask, address)
    return {'dropped': format_address(address)}


def add(ask, address):
    """Add a pending storage to the cluster."""
    text = ask.ask('enableStorageList', [control.node_id(ask, address)])
    if not text.startswith('Nodes added'):
        raise Failed('%s was not added: %s' % (format_address(address), text))
    return {'added': format_address(address)}


def tweak(ask, without):
    """Redistribute the partitions.

    Args:
        without: addresses of storages that shall hold nothing; all that are down are added.
    """
    identities = [control.node_id(ask, each) for each in without]
    changed, _ = ask.ask('tweakPartitionTable', identities, False)
    return {'changed': bool(changed)}


def set_replicas(ask, count):
    """Set the number of additional copies; a tweak creates them."""
    ask.ask('setNumReplicas', count)
    return {'replicas': count}


def set_state(ask, name):
    """Change the cluster's state, for example to STOPPING."""
    control.set_cluster_state(ask, name)
    return {'cluster_state': name.upper()}


def require_every_copy(ask):
    """Raise Failed unless every copy of every partition works and is up to date."""
    _everything_there(ask, 'pack')


def _everything_there(ask, purpose):
    state = describe(ask)
    table = state['partitions']
    if state['cluster_state'] != 'RUNNING' or table is None:
        raise Failed('can not %s: the cluster is %s' % (purpose, state['cluster_state']))
    down = [each['address'] or each['id'] for each in state['nodes']
            if each['type'] == 'storage' and each['state'] != 'RUNNING']
    behind = [address for address, cells in sorted(table['cells'].items())
              if set(cells) - set(['up_to_date'])]
    if down or behind or table['up_to_date'] <= table['replicas']:
        raise Failed(
            'can not %s while a copy is missing: %s' % (
                purpose, ', '.join(sorted(set(down + behind))) or 'too few replicas'))
    return table


def _require_spare(ask, address):
    name = format_address(address)
    if not holds_everything(describe(ask), [name]):
        raise Failed('no other storage that works holds all the data of %s' % name)


def _does_not_run(missing):
    return Failed('the cluster does not run: %s' % (
        'it waits for %s' % missing if missing else 'it does not begin'))


def _missing(ask, storages):
    there = dict((address, state) for address, _, state in control.storages(ask))
    return ', '.join(format_address(each) for each in storages
                     if there.get(each) not in ('PENDING', 'RUNNING'))


def _wait_until_running(ask, deadline):
    while True:
        state = control.cluster_state(ask)
        if state == 'RUNNING':
            return state
        if monotonic() >= deadline:
            raise Failed('the cluster was started, but is %s' % state)
        time.sleep(_PAUSE)
