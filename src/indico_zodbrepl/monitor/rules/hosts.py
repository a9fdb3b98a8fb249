"""Rules about the hosts of a cluster of several."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl import __version__
from indico_zodbrepl.monitor.host_status import HostStatus
from indico_zodbrepl.monitor.rules.facts import RUNNING, Facts, condition, remedy, shown_program
from indico_zodbrepl.monitor.words import listed
from indico_zodbrepl.probing.answers import Alert, Level

CLOCK_SECONDS = 5.0
"""Difference of clocks that is reported; transactions get their times from the primary's."""
FEW_DAYS = 30.0
"""Days before a certificate expires from which that is reported."""


def warnings(facts: Facts) -> Iterator[Alert]:
    yield from _majority(facts)
    for host in facts.hosts:
        if host.up:
            yield from _file(facts, host)
            yield from _release(host)
            yield from _clock(host)
            yield from _certificate(facts, host)
            yield from _supervisor(facts, host)
            yield from _tunnel(facts, host)
        else:
            yield _away(facts, host)


def _majority(facts: Facts) -> Iterator[Alert]:
    """Warn that too few hosts answer for a promotion, or the start of a primary."""
    up = [host.name for host in facts.hosts if host.up]
    needed = len(facts.hosts) // 2 + 1
    if facts.hosts and len(up) < needed:
        yield Alert(
            Level.CRITICAL,
            "",
            f"only {len(up)} of {len(facts.hosts)} hosts answer, and {needed} are a majority",
            "Without a majority no primary starts and no node is promoted: the other side of a "
            "cut network may do so.",
            "repair the network, or bring the other hosts back",
        )


def _away(facts: Facts, host: HostStatus) -> Alert:
    there = [
        *(f"node {node.name}" for node in facts.nodes if node.host == host.name),
        *(f"Indico instance {each.name}" for each in facts.indico if each.host == host.name),
    ]
    what = f"On it: {listed(there)}. " if there else ""
    problem = f"{host.problem[:1].upper()}{host.problem[1:]}"
    return Alert(
        Level.WARNING,
        host.name,
        f"host {host.name} does not answer",
        f"{what}{problem}",
        f"see if it is up and reachable at {host.address}; on it, start its agent: "
        f"`{facts.commands.zodbrepl('agent')}`, or its service",
    )


def _file(facts: Facts, host: HostStatus) -> Iterator[Alert]:
    if not host.same_file:
        yield Alert(
            Level.WARNING,
            host.name,
            f"the cluster file of host {host.name} is another one",
            "Commands about its nodes are refused until it has this host's file.",
            f"see the difference: `{facts.commands.zodbrepl('hosts', 'push', '--dry-run')}`",
        )


def _release(host: HostStatus) -> Iterator[Alert]:
    if host.release != __version__:
        yield Alert(
            Level.NOTICE,
            host.name,
            f"host {host.name} runs release {host.release}, this one {__version__}",
            "Hosts of different releases work together while an upgrade lasts.",
            "upgrade the older one: docs/how-to/upgrade.md",
        )


def _clock(host: HostStatus) -> Iterator[Alert]:
    offset = host.clock_offset
    if abs(offset) >= CLOCK_SECONDS:
        side = "ahead of" if offset > 0 else "behind"
        yield Alert(
            Level.WARNING,
            host.name,
            f"the clock of host {host.name} is {abs(offset):.0f} s {side} this host's",
            "Nothing is lost by that; times of transactions and lags are wrong.",
            "keep the clocks right with NTP on every host",
        )


def _certificate(facts: Facts, host: HostStatus) -> Iterator[Alert]:
    if host.certificate_until is None:
        return
    days = (host.certificate_until - facts.findings.taken_at) / 86400
    if days < FEW_DAYS:
        command = facts.commands.zodbrepl("hosts", "rotate-certificates")
        yield Alert(
            Level.WARNING,
            host.name,
            f"the certificate of host {host.name} expires in {max(days, 0):.0f} days",
            "Then the other hosts refuse it: its programs look stopped to them.",
            f"on the host of `hosts init`: `{command}`",
        )


def _supervisor(facts: Facts, host: HostStatus) -> Iterator[Alert]:
    if host.supervisor_problem and not host.here:
        yield Alert(
            Level.WARNING,
            host.name,
            f"supervisord of host {host.name} does not answer",
            f"{host.supervisor_problem}; what stops there is not started again.",
            f"start what is missing: `{facts.commands.zodbrepl('up')}`",
        )


def _tunnel(facts: Facts, host: HostStatus) -> Iterator[Alert]:
    """Warn of a cause that makes the programs of other hosts look stopped."""
    name = facts.cluster.host(host.name).tunnel
    program = facts.findings.programs.get(name)
    if not facts.cluster.encrypted or program is None or program.state in RUNNING:
        return
    yield Alert(
        Level.WARNING,
        host.name,
        f"the tunnel of host {host.name} {condition(program)}",
        "Through it the programs of this host and those of other hosts reach each other; to each "
        f"other they look stopped. {shown_program(program)}",
        remedy(facts.commands, facts.commands.zodbrepl("up"), name, program),
    )
