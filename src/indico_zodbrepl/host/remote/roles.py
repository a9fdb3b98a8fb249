"""What the holder of a certificate may ask of an agent.  Pure.

host: another host of the cluster; its commands and programs may ask for everything.
operator: a person's machine outside of the cluster; the same.
monitor: a monitoring system; what only reads, and no data.
"""

from __future__ import annotations

from indico_zodbrepl.host.certificates import Role

DATA = frozenset({"audit_blobs", "blobs", "block_digests", "origin"})
"""Reads that say something of the data, and take a disk's time."""
READS = DATA | frozenset(
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
        "kept_promise",
        "last_refusal",
        "last_seen",
        "last_transaction",
        "lock",
        "lock_holder",
        "newest_record",
        "operations_index",
        "operations_texts",
        "process_state",
        "programs",
        "promise",
        "record",
        "saved_state",
        "sight",
        "staged_copy",
        "state",
        "supervisor_is_away",
        "synchronous",
        "why_control_unwritable",
        "why_unwritable",
    }
)
"""The calls that change nothing and return no data of Indico."""

LOGS = frozenset({"logs.part", "logs.programs", "logs.warnings"})
"""Calls that read logs, which may name protected data."""
READS_FOR_HOSTS = LOGS | frozenset(
    {
        "backups.check_folder",
        "backups.files",
        "backups.holders",
        "backups.inspect",
        "backups.newer",
        "backups.series",
        "backups.size",
        "backups.swapped",
        "hosts.check_cluster_file",
        "export_covers",
        "exported_before",
        "exports",
        "hosts.cluster_file",
        "hosts.secret_names",
        "kept_export",
        "operations_index",
        "operations_texts",
        "refuse_unfinished_conversion",
    }
)
"""Calls that change nothing either, and are for hosts and operators only."""
ONE_AT_A_TIME = frozenset(
    {
        "assign",
        "follow",
        "force_start",
        "prepare",
        "promote",
        "restart_node",
        "start_node",
        "stop_node",
        "write_state",
    }
)
"""The calls of which one at a time runs for a node.

Those that keep a node from taking writes, such as ``fence``, wait for none: they are right at any
moment, and a failover needs them although another call hangs.
"""


def only_reads(method: str) -> bool:
    """Return True if a call changes nothing."""
    return method in READS or method in READS_FOR_HOSTS


def may_call(role: Role, method: str) -> bool:
    """Return True if the holder of a certificate of a role may make a call."""
    if role in (Role.HOST, Role.OPERATOR):
        # A person's certificate gives nobody a place in the cluster for ever.
        return role is Role.HOST or method not in ("hosts.replace_certificates", "hosts.leave")
    return role is Role.MONITOR and method in READS - DATA
