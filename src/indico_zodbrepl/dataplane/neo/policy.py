"""The NEO monitor's decisions about silent processes.  No I/O: facts in, actions out.

A storage that hangs stalls every write of the whole cluster for as long as it
hangs, and so does the primary master; NEO itself waits forever.  A storage is
given up only when every partition has an up-to-date copy on others that work.
"""
import collections

# kind: 'kill-storage' (told to the cluster, and to its process if that is on
#     this host) or 'kill-process' (SIGKILL to its process on this host)
Action = collections.namedtuple('Action', 'kind address reason')
# A silent process that is left alone, and the reason.
Problem = collections.namedtuple('Problem', 'address text')


# The monitor of the leader's host ends storages of other hosts too, if their own monitors do not.
LATER = 2


def decide(state, silent, hung_after, here, several=False):
    """Decide what to do about processes that are silent for too long.

    Args:
        state: what `state.describe` returns; None if the admin node does not answer.
        silent: {'host:port': seconds} of every process that is silent, for masters
            and storages.
        hung_after: seconds of silence after which a process counts as hung; 0
            to leave every process alone.
        here: the addresses whose processes run on this host and can be killed.
        several: True if each host has a monitor for its processes.  A process that is silent only
            from here is then left to its own; the kernel or the tunnel notices a silent host.

    Returns: (list of Action, list of Problem).
    """
    hung = dict((address, seconds) for address, seconds in silent.items()
                if hung_after and seconds >= hung_after)
    if several:
        hung = _own(hung, state, hung_after, here)
    if state is None:
        # The role of each process is unknown, so all are left alone.
        return [], [_left_alone(address, silent[address], 'the cluster tells nothing')
                    for address in sorted(hung)]
    kinds = dict((each['address'], each) for each in state['nodes'])
    actions, problems = [], []
    for address, seconds in sorted(hung.items()):
        node = kinds.get(address)
        if address == state['primary'] or (node and node['type'] == 'master'):
            _about_master(address, seconds, here, actions, problems)
        elif node is not None and node['type'] == 'storage':
            _about_storage(node, seconds, state, silent, here, actions, problems)
    # A hung primary would execute no order to the cluster.
    if any(each.address == state['primary'] for each in actions + problems):
        actions = [each for each in actions if each.kind == 'kill-process']
    return actions, problems


def _own(hung, state, hung_after, here):
    """Return the hung processes that the monitor of this host ends."""
    others = set()
    if state is not None and state['primary'] in here:
        others = set(each['address'] for each in state['nodes'] if each['type'] == 'storage')
    return dict((address, seconds) for address, seconds in hung.items()
                if address in here or address in others and seconds >= LATER * hung_after)


def strays(state, here):
    """Return local processes that have not joined a cluster that waits for its storages.

    Such a process does not join on its own: it waits for an answer without a time limit.  While
    the cluster recovers nothing is served, so restarting the process costs nothing.

    Args:
        state, here: as for `decide`.

    Returns: a set of addresses; empty if the cluster waits for no storage.
    """
    if state is None or state['cluster_state'] != 'RECOVERING':
        return set()
    return here - set(each['address'] for each in state['nodes'])


def about_strays(seconds, hung_after):
    """Decide what to do about strays.

    Args:
        seconds: {'host:port': for how long it has been a stray}.
        hung_after: as for `decide`; a stray gets twice that time, as it may be slow.

    Returns: list of Action.
    """
    return [Action('kill-process', address,
                   'not in the cluster, which waits, for %.0f s' % seconds[address])
            for address in sorted(seconds)
            if hung_after and seconds[address] >= 2 * hung_after]


def holds_everything(state, without):
    """Return True if every partition has an up-to-date copy on a storage not in `without`."""
    rows = (state['partitions'] or {}).get('rows') or [()]
    return all(set(row) - set(without) for row in rows)


def _about_master(address, seconds, here, actions, problems):
    if address in here:
        actions.append(Action('kill-process', address, _silence(seconds)))
    else:
        problems.append(_left_alone(
            address, seconds, 'it is a master on another host, end it there'))


def _about_storage(node, seconds, state, silent, here, actions, problems):
    address = node['address']
    if node['state'] != 'RUNNING':
        if address in here:
            actions.append(Action('kill-process', address, _silence(seconds)))
    elif holds_everything(state, silent):
        actions.append(Action('kill-storage', address, _silence(seconds)))
    else:
        problems.append(_left_alone(
            address, seconds, 'no other storage that works holds all of its data'))


def _left_alone(address, seconds, reason):
    return Problem(address, '%s is silent for %.0f s and is left alone: %s' % (
        address, seconds, reason))


def _silence(seconds):
    return 'silent for %.0f s' % seconds
