"""Keep a master from serving data that are older than what was acknowledged.

When a storage that is needed goes, NEO's leading master recovers, and is content
then with any storages that hold every partition.  One that was away knows only
the partition table of its time, by which it is up to date: if it is the first
to come, it serves, and what was acknowledged meanwhile is overwritten on the
storages that have it.  At its first recovery a master waits for all storages
that the newest table it sees needs; here it does so at each.
"""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.neo.library import import_neo

import_neo()

from neo.master import app  # noqa: E402
from neo.master.recovery import RecoveryManager  # noqa: E402


class PatientRecovery(RecoveryManager):
    """Begins without all needed storages only when it is ordered to while it waits."""

    def run(self):
        self.app._startup_allowed = False
        RecoveryManager.run(self)


def install():
    """Have the master of this process recover so; call it before the master begins."""
    app.RecoveryManager = PatientRecovery
