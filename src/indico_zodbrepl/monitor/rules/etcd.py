"""Rules about the members of etcd: lost, without a majority, full, behind or slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.monitor.rules.facts import Facts
from indico_zodbrepl.probing.answers import Alert, Level

if TYPE_CHECKING:
    from indico_zodbrepl.etcd.health import Health, MemberHealth

HOW_TO = "docs/how-to/etcd.md"


def warnings(facts: Facts) -> Iterator[Alert]:
    yield from _older(facts)
    found = facts.findings.etcd
    if found is None:
        return
    if not found.has_majority:
        yield _no_majority(facts, found)
    elif len(found.serving) < len(found.members):
        yield _lost(facts, found)
    if found.full:
        yield Alert(
            Level.CRITICAL,
            "",
            "etcd refuses writes: its database is full",
            "The quota is used up (alarm NOSPACE), so no lease can be renewed; the primary "
            f"refuses writes {facts.cluster.lease:g} s later.",
            f"compact and defragment it, then clear the alarm: {HOW_TO}",
        )
    if found.strangers:
        yield Alert(
            Level.CRITICAL,
            "",
            "the endpoints of etcd are of several clusters",
            f"{_named(found.strangers)} have another cluster id than {found.serving[0].url}. Two "
            "nodes could lead at the same time.",
            f"correct endpoints of <etcd>, or replace these members: {HOW_TO}",
        )
    if found.behind:
        yield Alert(
            Level.WARNING,
            "",
            f"a member of etcd is behind: {_named(found.behind)}",
            "It copies the log from the others; until it has, the loss of another member can take "
            "away the majority.",
            "wait; if it stays behind, see its log and its disk",
        )
    if found.has_majority and found.slow:
        slowest = max(each.seconds for each in found.slow)
        yield Alert(
            Level.NOTICE,
            "",
            f"etcd answers slowly: {_named(found.slow)}",
            f"An answer took {slowest:.2f} s. Renewals of the lease may be late.",
            f"see the load of these hosts and the fsync time of their disks: "
            f"`{facts.commands.zodbrepl('check', '--system')}`",
        )


def _older(facts: Facts) -> Iterator[Alert]:
    """Report a leader key that is older than the hosts' records: a snapshot was restored."""
    automation = facts.findings.automation
    known = max((word.epoch or 0 for word in facts.findings.records), default=0)
    if automation is None or automation.leader_epoch is None or automation.leader_epoch >= known:
        return
    yield Alert(
        Level.CRITICAL,
        "",
        f"etcd is older than the cluster: it knows epoch {automation.leader_epoch}, the hosts "
        f"know epoch {known}",
        "A snapshot of etcd was restored, or its keys were changed by hand. It may name a former "
        "leader.",
        "the automation writes the key again within seconds; if it does not, stop the cluster with "
        f"`{facts.commands.zodbrepl('down')}` and rebuild etcd: {HOW_TO}",
    )


def _no_majority(facts: Facts, found: Health) -> Alert:
    lost = [each for each in found.members if each.problem]
    return Alert(
        Level.CRITICAL if facts.cluster.automatic else Level.WARNING,
        "",
        f"etcd has no majority: {len(found.serving)} of {len(found.members)} members serve, "
        f"{found.needed} are needed",
        f"{_reasons(lost)}. No lease can be renewed: the primary refuses writes after "
        f"{facts.cluster.lease:g} s, and no node takes over. Pages stay readable.",
        disks_and_network(facts) if found.most_run else start_members(facts),
    )


def start_members(facts: Facts) -> str:
    """Return what to do if a majority of the members does not answer."""
    return (
        f"start the hosts of these members: `{facts.commands.zodbrepl('up')}` on each; if they "
        f"run, see the fsync time of their disks: "
        f"`{facts.commands.zodbrepl('check', '--system')}`; if they are lost for good: {HOW_TO}"
    )


def disks_and_network(facts: Facts) -> str:
    """Return what to do if members run and yet don't write."""
    return (
        "most members run, but do not agree in time: see the fsync time of their disks with "
        f"`{facts.commands.zodbrepl('check', '--system')}` on their hosts, the network between "
        f"these, and `{facts.commands.show_log(Etcd.program)}`"
    )


def _lost(facts: Facts, found: Health) -> Alert:
    lost = [each for each in found.members if each.problem]
    spare = len(found.serving) - found.needed
    known = facts.findings.automation
    disagree = known is not None and bool(known.problem) and found.most_run
    return Alert(
        Level.WARNING,
        "",
        f"{len(lost)} of {len(found.members)} members of etcd do not serve",
        f"{_reasons(lost)}. The majority survives the loss of {spare} more.",
        disks_and_network(facts)
        if disagree
        else f"there: `{facts.commands.zodbrepl('up')}`; if it stops again, such as with a full "
        f"disk, make room first (`{facts.commands.show_log(Etcd.program)}`); if its disk was lost: "
        f"`{facts.commands.zodbrepl('etcd', 'replace')}`",
    )


def _named(members: tuple[MemberHealth, ...]) -> str:
    return ", ".join(each.url for each in members)


def _reasons(members: list[MemberHealth]) -> str:
    return "; ".join(f"{each.url}: {each.problem}" for each in members)
