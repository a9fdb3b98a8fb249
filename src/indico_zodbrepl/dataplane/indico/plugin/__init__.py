"""The Indico plugin: status and benchmarks below /indico/zodbrepl, for admins.

Found through the entry point `zodbrepl` of the group `indico.ext_types`; it
need not be activated.
"""
from __future__ import absolute_import

__metadata__ = {
    'name': 'ZODB replication',
    'description': 'Shows the storage that this Indico works on'
}
