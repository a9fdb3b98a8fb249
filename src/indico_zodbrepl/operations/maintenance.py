"""Pause the automation, and let it go on.

While it is paused, the leader's lease is renewed, nobody takes over and nothing rejoins.
"""

from __future__ import annotations

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Leader, Paused, Stored
from indico_zodbrepl.host.interface import DryRun
from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.model import Context, Figures
from indico_zodbrepl.operations.single import Single
from indico_zodbrepl.probing.times import now


def paused(cluster: Cluster) -> Paused | None:
    """Return who paused the automation and why; None if it works.

    Raises OperatorError: exit 2, the cluster has no automation; others if etcd does not answer.
    """
    found = _stored(cluster)
    return None if found is None else found.record


def describe(found: Paused) -> str:
    """Return who paused the automation, since when and why, one line."""
    return f"paused by {found.by} since {found.since}: {found.reason}"


def _stored(cluster: Cluster) -> Stored[Paused] | None:
    if not cluster.automatic:
        raise OperatorError(
            "the cluster has no automation",
            f"{cluster.source}: automatic is false, so only commands move the primary",
            exit_code=ExitCode.BAD_CONFIG,
        )
    store = store_of(cluster)
    return store.read(store.keys.paused)


class PauseAutomation(Single):
    """The automation takes no decisions until it is resumed."""

    action = "pause"
    verb = "pause"
    words = "Pause the automation of cluster {name}"
    kept = ("leader",)
    done = "the automation is paused: {leads}, and nobody takes over until: {resume}"

    def checked(self, cluster: Cluster, _installation: Installation) -> DryRun:
        found = paused(cluster)
        if found is not None:
            return DryRun((f"the automation is {describe(found)}",))
        return DryRun(
            (_leads(leadership.read(cluster)),),
            ("write the key `paused` in etcd; leases are renewed, nobody takes over",),
        )

    def do(self, context: Context) -> Figures:
        cluster = context.cluster
        found = _stored(cluster)
        if found is None:
            store = store_of(cluster)
            record = Paused(operation.actor(), context.plan.reason, now())
            written = store.create(store.keys.paused, record)
            if not written.done and written.stored is not None:
                found = written.stored
        if found is not None:
            context.note(f"the automation was already {describe(found.record)}")
        leader = leadership.read(cluster)
        return {
            "leader": "" if leader is None else leader.node,
            "leads": _leads(leader),
            "resume": Commands.here(cluster).zodbrepl("resume-automation"),
        }


class ResumeAutomation(Single):
    """The automation takes decisions again."""

    action = "resume-automation"
    verb = "resume_automation"
    words = "Let the automation of cluster {name} act again"
    kept = ("paused_by", "paused_since")
    done = "{what}: {leads}"

    def checked(self, cluster: Cluster, _installation: Installation) -> DryRun:
        found = paused(cluster)
        if found is None:
            return DryRun(("the automation is not paused",))
        return DryRun((f"the automation is {describe(found)}",), ("delete the key `paused`",))

    def do(self, context: Context) -> Figures:
        cluster = context.cluster
        found = _stored(cluster)
        leads = _leads(leadership.read(cluster))
        if found is None:
            return {"what": "the automation was not paused", "leads": leads}
        store_of(cluster).delete(found)
        return {
            "what": "the automation acts again",
            "leads": leads,
            "paused_by": found.record.by,
            "paused_since": found.record.since,
        }


def _leads(leader: Leader | None) -> str:
    if leader is None:
        return "no node leads yet"
    if leader.released:
        return f"node {leader.node} has given its role away"
    return f"node {leader.node} leads in epoch {leader.epoch}"
