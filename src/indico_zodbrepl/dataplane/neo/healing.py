"""Refill a storage that lost its disk."""
from __future__ import absolute_import

import time

from indico_zodbrepl.dataplane.neo import control, orders
from indico_zodbrepl.dataplane.neo.control import Failed
from indico_zodbrepl.dataplane.neo.state import describe
from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.programs.clock import monotonic

_PAUSE = 0.2  # seconds


def heal(ask, address, wait):
    """Fill a storage that lost its disk with all of its data again.

    Its program must be running, or be restarted by its supervisor whenever it
    exits: it is dropped, which ends it, comes back empty and is added again.
    A storage whose copy is up to date is left alone.

    Args:
        wait: seconds for the whole procedure.

    Returns: healed: True if it was necessary; seconds.
    """
    began = monotonic()
    deadline = began + wait
    name = format_address(address)
    state = describe(ask)
    if _holds(state, name, 'up_to_date'):
        raise Failed('%s has data that are up to date' % name)
    if (state['partitions'] or {}).get('cells', {}).get(name):
        orders.drop(ask, address)
    _wait_for(ask, address, 'PENDING', deadline)
    orders.add(ask, address)
    orders.tweak(ask, [each for each, _, known in control.storages(ask)
                       if known != 'RUNNING' and each is not None])
    while True:
        state = describe(ask)
        if _holds(state, name, 'up_to_date') and not _holds(state, name, 'out_of_date'):
            return {'healed': name, 'seconds': round(monotonic() - began, 1)}
        if monotonic() >= deadline:
            raise Failed('%s is not up to date within %g s; it goes on' % (name, wait))
        time.sleep(_PAUSE)


def _holds(state, name, kind):
    return (state['partitions'] or {}).get('cells', {}).get(name, {}).get(kind, 0)


def _wait_for(ask, address, wanted, deadline):
    while True:
        for known, _, state in control.storages(ask):
            if known == address and state == wanted:
                return
        if monotonic() >= deadline:
            raise Failed('%s did not come back' % format_address(address))
        time.sleep(_PAUSE)
