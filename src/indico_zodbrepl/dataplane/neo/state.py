"""The state that a NEO cluster reports, as one dict for JSON."""
from __future__ import absolute_import

import collections

from neo.lib.protocol import CellStates, NodeStates, NodeTypes, uuid_str
from neo.lib.util import dump

from indico_zodbrepl.dataplane.neo.control import Failed, cluster_state
from indico_zodbrepl.dataplane.programs.addresses import format_address

# Without a primary the admin node has no partition table to report.
WITH_PARTITIONS = ('VERIFYING', 'RUNNING', 'STARTING_BACKUP', 'BACKINGUP',
                   'STOPPING_BACKUP')
WRITABLE = 'RUNNING'


def describe(control):
    """Query a `Control`; return a dict, see `NOTHING`.

    The last transaction comes from the primary master itself, everything else
    from the admin node's memory, which may be older than the death of a
    primary.  Raises Failed if the admin node does not answer; if only the
    primary does not, `last_tid` is None and `silent_primary` says why.
    """
    state = cluster_state(control)
    nodes = control.ask('getNodeList')
    primary = control.ask('getPrimary')
    found = dict(
        NOTHING, cluster_state=state,
        primary=_address_of(nodes, primary),
        nodes=sorted((_node(each) for each in nodes),
                     key=lambda each: (each['type'], each['address'])))
    if state in WITH_PARTITIONS:
        found['partitions'] = _partitions(
            nodes, *control.ask('getPartitionRowList'))
    try:
        found['last_tid'] = _tid(control.ask('getLastTransaction'))
    except Failed as failure:
        found['silent_primary'] = str(failure)
    return found


NOTHING = {
    'cluster_state': None,   # NEO's name of the state
    'primary': None,         # 'host:port' of the primary master
    'nodes': (),             # type, address, id, state of each
    'partitions': None,      # see _partitions
    'last_tid': None,        # '0x' and 16 digits
    'silent_primary': None,  # why the last transaction is unknown
}


def _node(entry):
    kind, address, identity, state, _ = entry
    return {'type': str(kind).lower(), 'address': _written(address),
            'id': uuid_str(identity), 'state': str(state)}


def _partitions(nodes, table_id, replicas, rows):
    """Return the partition table.

    Returns: table (its number), count, replicas (wanted copies beyond the
    first), up_to_date (copies that the worst partition has on running
    storages), cells (address of a storage: state of its cells: how many), rows
    (for each partition the addresses of its up-to-date cells on running
    storages).
    """
    running = dict((each[2], each[1]) for each in nodes
                   if each[0] == NodeTypes.STORAGE and each[3] == NodeStates.RUNNING)
    written = dict((each[2], _written(each[1])) for each in nodes)
    cells = collections.defaultdict(lambda: collections.defaultdict(int))
    good = []
    for row in rows:
        for identity, state in row:
            address = written.get(identity) or uuid_str(identity)
            cells[address][str(state).lower()] += 1
        good.append(sorted(
            _written(running[identity]) for identity, state in row
            if identity in running and state == CellStates.UP_TO_DATE))
    return {
        'table': table_id, 'count': len(rows), 'replicas': replicas,
        'up_to_date': min([len(each) for each in good] or [0]),
        'cells': dict((address, dict(counts)) for address, counts in cells.items()),
        'rows': good,
    }


def _address_of(nodes, identity):
    for _, address, known, _, _ in nodes:
        if identity is not None and known == identity:
            return _written(address)
    return None


def _written(address):
    return None if address is None else format_address(address)


def _tid(tid):
    return None if tid is None else '0x' + dump(tid)
