"""Rules about the automatic failover: who leads, who could take over, and why nobody may."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.monitor.findings import HostReport
from indico_zodbrepl.monitor.host_status import Automation
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.etcd import disks_and_network, start_members
from indico_zodbrepl.monitor.rules.facts import Facts
from indico_zodbrepl.probing.answers import Alert, Hold, Level

QUORUM = "docs/how-to/automatic-failover.md"


def warnings(facts: Facts) -> Iterator[Alert]:
    found = facts.findings.automation
    if found is None:
        for node in facts.nodes:
            if node.held is Hold.LEASE:
                yield _leased_in_vain(facts, node)
        return
    if found.problem:
        yield _unknown(facts, found)
    if found.paused is not None:
        yield _paused(facts, found)
    for node in facts.nodes:
        if node.held is Hold.LEASE:
            yield _ended(facts, node, found)
    yield from _successors(facts, found)
    yield from _unrecovered(facts)


def _unknown(facts: Facts, found: Automation) -> Alert:
    etcd = facts.findings.etcd
    if found.hint:
        return Alert(
            Level.CRITICAL,
            "",
            "no automatic failover: this host can't use etcd",
            f"{found.problem}. A primary that can't renew its lease refuses writes "
            f"{found.lease:g} s later.",
            found.hint,
        )
    return Alert(
        Level.WARNING,
        "",
        "the state of the automatic failover is unknown: etcd does not answer here",
        f"{found.problem}. Without a majority of etcd's members the primary refuses writes "
        f"{found.lease:g} s later, and no node takes over.",
        disks_and_network(facts) if etcd is not None and etcd.most_run else start_members(facts),
    )


def _paused(facts: Facts, found: Automation) -> Alert:
    pause = found.paused
    if pause is None:
        raise ValueError("it is not paused")
    return Alert(
        Level.WARNING,
        "",
        "the automatic failover is paused: no node takes over from a lost primary",
        f"{pause.by} paused it at {pause.since}: {pause.reason}",
        f"when the work is done: `{facts.commands.zodbrepl('resume-automation')}`",
    )


def _leased_in_vain(facts: Facts, node: NodeStatus) -> Alert:
    restart = facts.commands.zodbrepl("restart", node.name, "--reason", "TEXT")
    return Alert(
        Level.CRITICAL,
        node.name,
        f"{facts.called(node)} refuses writes: it waits for a lease, and automatic failover is off",
        "Its server was started, or has led, with automatic failover.",
        f"restart it: `{restart}`",
    )


def _ended(facts: Facts, node: NodeStatus, found: Automation) -> Alert:
    command = facts.commands.zodbrepl
    program = f"automation-{node.host}"
    return Alert(
        Level.CRITICAL,
        node.name,
        f"{facts.called(node)} refuses writes: its lease has ended",
        f"Its host has not renewed the lease of {found.lease:g} s in etcd. Another node may have "
        "taken over, so it must not accept commits.",
        f"see why with `{facts.commands.show_log(program)}`; `{command('status')}` shows whether "
        f"etcd answers. With a lost majority of etcd: {QUORUM}",
    )


def _successors(facts: Facts, found: Automation) -> Iterator[Alert]:
    """Tell which nodes can't take over; if none can and none leads, with the command by hand."""
    unfit = [
        each
        for each in found.candidates
        if each.problem and (each.node != found.leader or found.released)
    ]
    leads = any(node.held not in (Hold.EPOCH, Hold.LEASE) for node in facts.primaries)
    if not leads and not found.problem:
        yield from _nobody(facts, found)
        return
    silent = {node.name for node in facts.nodes if not node.reachable}
    for each in unfit:
        if each.node in silent:
            continue  # its own alert says so
        yield Alert(
            Level.WARNING,
            each.node,
            f"node {each.node} can't take over from a lost primary",
            each.problem,
            "it counts again when it has caught up with the primary"
            if each.doubt == each.problem
            else f"bring it back: `{facts.commands.zodbrepl('up')}`; if its data has diverged: "
            f"`{facts.commands.zodbrepl('rejoin', each.node, '--dry-run')}`",
        )
    if found.alone:
        yield Alert(
            Level.WARNING,
            "",
            "no automatic failover: the primary may hold commits that no other node has",
            "It has acknowledged commits without secondaries. If it is lost, the automation can't "
            "prove that nothing is lost, and leaves the decision to you.",
            "bring a secondary back; when it has caught up, failovers are automatic again",
        )


def _unrecovered(facts: Facts) -> Iterator[Alert]:
    """Report recovery exports, which are made while nobody reads the output of a command."""
    for name, host in facts.findings.hosts.items():
        for export in host.unrecovered if isinstance(host, HostReport) else ():
            yield Alert(
                Level.NOTICE,
                "",
                f"recovery export {export} on host {name} has transactions that the cluster lacks",
                "They were only on a node that lost its role. Clients may have been told that "
                "they were saved.",
                f"see what they hold: `{facts.commands.zodbrepl('recover', export)}`. This "
                "notice ends when you recover one of them, move the export away, or after 7 days",
            )


def _nobody(facts: Facts, found: Automation) -> Iterator[Alert]:
    command = facts.commands.zodbrepl
    by_hand = (
        f"By hand, with the possible loss shown first: `{command('failover', '--dry-run')}`, then "
        f"`{command('failover', '--reason', 'TEXT')}`"
    )
    if found.leader is None and not facts.primaries:
        yield Alert(
            Level.CRITICAL,
            "",
            "no automatic failover: etcd has no leader key, and no primary runs that could write "
            "it",
            "Etcd is new or has lost its data. A node takes over only from a leader that etcd "
            "knows.",
            "start the host of the primary, then its automation writes the key: "
            f"`{command('up')}`. {by_hand}",
        )
        return
    why = [f"node {each.node}: {each.problem}" for each in found.candidates if each.problem]
    if found.alone:
        why.insert(0, "the primary acknowledged commits that no other node may have")
    if not why:
        return  # a take-over is under way
    yield Alert(
        Level.CRITICAL,
        "",
        "no automatic failover: it is not proven that no acknowledged commit is lost"
        if found.alone or any("proven" in each for each in why)
        else "no automatic failover: no node can take over",
        "; ".join(why) + ".",
        f"bring a missing host back, then it continues automatically. {by_hand}",
    )
