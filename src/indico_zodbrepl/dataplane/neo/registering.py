"""Keep two new storages from having one id, with which the second is turned away for ever.

A storage keeps the id that a leading master gave it.  On a busy machine two
masters may lead for a moment before one of them gives way, and each gives the
same first id to another storage; the master that is left refuses whichever
comes second: `already connected`.  An id counts for something only where a
partition table names it.  So a storage that has none, and thus no data, asks
for an id each time that it registers, as it did the first time.
"""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.neo.library import import_neo
from indico_zodbrepl.dataplane.programs.clock import monotonic

import_neo()

from neo.lib.bootstrap import BootstrapManager  # noqa: E402
from neo.storage import app, transactions  # noqa: E402


class Registering(BootstrapManager):
    """Looks for the leading master and registers with it."""

    @property
    def uuid(self):
        """Return the storage's id; None, so that it gets one, while no partition table is known."""
        return None if self.app.dm.getPTID() is None else self.app.uuid


def install():
    """Have the storage of this process register so; call it before the storage begins."""
    app.BootstrapManager = Registering
    # It sets timers of the event loop, see `library`.
    transactions.time = monotonic
