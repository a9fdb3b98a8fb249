"""What the holder of a certificate may ask of an agent.  Pure.

host: another host of the cluster; its commands and programs may ask for everything.
operator: a person's machine outside of the cluster; the same.
monitor: a monitoring system; what only reads, and no data.
"""

from __future__ import annotations

from indico_zodbrepl.host.certificates import Role

READS = frozenset(
    {
        "control_disk",
        "data_end",
        "data_file",
        "disk",
        "free_bytes",
        "half_packed",
        "has_data",
        "has_folder",
        "highest_epoch",
        "history",
        "is_of_cluster",
        "keepers",
        "last_refusal",
        "last_seen",
        "last_transaction",
        "lock",
        "lock_holder",
        "newest_record",
        "process_state",
        "programs",
        "record",
        "saved_state",
        "sight",
        "staged_copy",
        "state",
        "supervisor_is_away",
        "why_control_unwritable",
        "why_unwritable",
    }
)
"""The calls that change nothing and return no data of Indico."""


def may_call(role: Role, method: str) -> bool:
    """Return True if the holder of a certificate of a role may make a call."""
    if role in (Role.HOST, Role.OPERATOR):
        return True
    return role is Role.MONITOR and method in READS
