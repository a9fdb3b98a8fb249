"""Rules about the cluster as a whole."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterator

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import NodeState, Role
from indico_zodbrepl.cluster.validation import PRIVATE_NETWORKS
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY
from indico_zodbrepl.monitor.rules.facts import Facts
from indico_zodbrepl.monitor.words import listed
from indico_zodbrepl.probing.answers import Alert, Level


def warnings(facts: Facts) -> Iterator[Alert]:
    yield from _split_brain(facts)
    yield from _no_primary_assigned(facts)
    yield from _supervisor(facts)
    yield from _public_addresses(facts)


def _split_brain(facts: Facts) -> Iterator[Alert]:
    if not facts.rivals:
        return
    extra = facts.rivals[-1]
    fence = (
        f"Split brain: fence node {extra.name} now: "
        f"`{facts.commands.zodbrepl('node', 'fence', extra.name)}`"
        if extra.managed
        else f"Split brain: stop node {extra.name} now, where it runs"
    )
    then = (
        f"; then `{facts.commands.zodbrepl('rejoin', extra.name, '--dry-run')}` shows its "
        "divergent transactions"
        if facts.can("rejoin") and extra.managed and not extra.leads
        else ""
    )
    yield Alert(
        Level.CRITICAL,
        "",
        split_brain(facts),
        "Clients write to both, so their histories diverge; nothing can merge them.",
        f"{fence}{then}",
    )


def split_brain(facts: Facts) -> str:
    """Return the name of the situation and of its nodes."""
    names = listed(sorted(node.name for node in facts.rivals))
    return f"Split brain: {names} {'all' if len(facts.rivals) > 2 else 'both'} " + (
        "lead as master" if facts.rivals[0].leads else "run as primary"
    )


def _no_primary_assigned(facts: Facts) -> Iterator[Alert]:
    known = all(isinstance(state, NodeState) for state in facts.findings.states.values())
    if (
        not known
        or not backend_of(facts.cluster).has_epochs
        or any(node.assigned_role is Role.PRIMARY for node in facts.nodes)
    ):
        return
    yield Alert(
        Level.CRITICAL,
        "",
        "no node is assigned to be the primary",
        "The state files of all nodes say secondary or relay.",
        f"compare the state.json in the data directories with `{facts.commands.zodbrepl('check')}`",
    )


def _supervisor(facts: Facts) -> Iterator[Alert]:
    problem = facts.findings.supervisor_problem
    if problem:
        yield Alert(
            Level.WARNING,
            "",
            "supervisord does not answer",
            f"{problem}; what stops now is not started again.",
            _way_to_supervisor(facts),
        )


def _way_to_supervisor(facts: Facts) -> str:
    if facts.findings.supervisor_problem != SUPERVISOR_AWAY:
        pid = shlex.quote(facts.commands.path(Layout(facts.cluster).supervisord_pid))
        return f"if its process was stopped (state T), continue it: `kill -CONT $(cat {pid})`"
    up = facts.commands.zodbrepl("up")
    runs = any(node.reachable and node.has_program for node in facts.nodes) or any(
        instance.up for instance in facts.indico
    )
    if not runs:
        return f"start everything: `{up}`"
    return f"replace the programs that it left, one after another, the primary last: `{up}`"


def _public_addresses(facts: Facts) -> Iterator[Alert]:
    foreign = [node.name for node in facts.cluster.nodes if not node.managed]
    public = [
        f"{endpoint} ({endpoint.address})"
        for endpoint in facts.cluster.endpoints()
        if _is_public(endpoint.address.host)
        and not (endpoint.kind == "node" and endpoint.name in foreign)
    ]
    if public:
        yield Alert(
            Level.NOTICE,
            "",
            "listens on public addresses without TLS",
            f"{', '.join(public)}. {_exposed(facts)}",
            "bind to private addresses and connect hosts through WireGuard, ssh or stunnel; "
            f"the addresses are in `{facts.commands.path(facts.cluster.source)}`",
        )


def _exposed(facts: Facts) -> str:
    """Return what an attacker gains who reaches these addresses."""
    if any(node.replication_port is not None for node in facts.cluster.nodes):
        return "Whoever reaches a replication port receives the whole database."
    if backend_of(facts.cluster).asks_passwords:
        return "Passwords guard the data, but who is on the way reads all that passes."
    return "Whoever reaches a storage port can read and change the whole database."


def _is_public(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_unspecified or not any(address in network for network in PRIVATE_NETWORKS)
