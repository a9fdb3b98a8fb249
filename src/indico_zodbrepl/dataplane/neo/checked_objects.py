"""Let a pack go on beside a transaction that only checks an object.

A transaction locks what it stores, and also what it has only read and wants to be current, as
BTrees do.  When NEO's storage packs a locked object, it looks for what the transaction stores of
it, and ends if that is nothing.  All storages pack at the same time, so all of them end.
"""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.neo.library import import_neo

import_neo()

from neo.storage.transactions import TransactionManager  # noqa: E402

_update = TransactionManager.updateObjectDataForPack.__func__


def install():
    """Patch the storage of this process; call it before the storage begins."""
    TransactionManager.updateObjectDataForPack = _update_if_stored


def _update_if_stored(manager, oid, *what):
    holder = manager.getLockingTID(oid)
    if holder is None or oid in manager._transaction_dict[holder].store_dict:
        _update(manager, oid, *what)
