"""Keep two new storages from getting the same id, with which the second is refused forever.

A storage keeps the id that a leading master gave it.  On a busy machine two
masters may lead for a moment before one of them gives way, and each gives the
same first id to a different storage. The remaining master refuses the storage
that connects second: `already connected`.  An id matters only if a partition
table names it.  So a storage without a table, and thus without data, requests
a new id each time it registers, as it did the first time.
"""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.neo.library import import_neo
from indico_zodbrepl.dataplane.programs.clock import monotonic

import_neo()

from neo.lib.bootstrap import BootstrapManager  # noqa: E402
from neo.storage import app, transactions  # noqa: E402


class Registering(BootstrapManager):
    """The search for the leading master, and the registration with it."""

    @property
    def uuid(self):
        """Return the storage's id; None, to get a new one, while no partition table is known."""
        return None if self.app.dm.getPTID() is None else self.app.uuid


def install():
    """Patch the storage of this process; call it before the storage begins."""
    app.BootstrapManager = Registering
    # It sets timers of the event loop, see `library`.
    transactions.time = monotonic
