"""Keep a master from serving data that are older than acknowledged transactions.

When a required storage goes away, NEO's leading master recovers, and then
accepts any set of storages that holds every partition.  A storage that was
away knows only its old partition table, by which it is up to date.  If it
connects first, it serves, and transactions acknowledged meanwhile are
overwritten on the storages that have them.  At its first recovery a master
waits for all storages that the newest known table requires; here it does so at
each recovery.
"""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.neo.library import import_neo

import_neo()

from neo.master import app  # noqa: E402
from neo.master.recovery import RecoveryManager  # noqa: E402


class PatientRecovery(RecoveryManager):
    """A recovery that continues without required storages only if it is ordered to."""

    def run(self):
        self.app._startup_allowed = False
        RecoveryManager.run(self)


def install():
    """Patch the master of this process; call it before the master begins."""
    app.RecoveryManager = PatientRecovery
