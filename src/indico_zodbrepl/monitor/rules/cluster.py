"""Rules about the cluster as a whole."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.cluster.validation import PRIVATE_NETWORKS
from indico_zodbrepl.monitor.rules.facts import Facts
from indico_zodbrepl.monitor.snapshot import Alert, Level


def warnings(facts: Facts) -> Iterator[Alert]:
    yield from _two_primaries(facts)
    yield from _no_primary_assigned(facts)
    yield from _supervisor(facts)
    yield from _public_addresses(facts)


def _two_primaries(facts: Facts) -> Iterator[Alert]:
    primaries = facts.primaries
    if len(primaries) < 2:
        return
    names = " and ".join(node.name for node in primaries)
    extra = next((node for node in primaries if node.assigned_role is not Role.PRIMARY),
                 min(primaries, key=lambda node: node.epoch or 0))
    fence = facts.commands.zodbrepl("node", "fence", extra.name)
    yield Alert(
        Level.CRITICAL, "", f"{len(primaries)} primaries run at once: {names}",
        "Clients write to either of them, so their histories diverge; nothing merges them again.",
        f"fence the one that is not meant to be it at once: `{fence}`; then "
        f"`{facts.commands.zodbrepl('rejoin', extra.name, '--dry-run')}` shows what only it has")


def _no_primary_assigned(facts: Facts) -> Iterator[Alert]:
    if any(node.assigned_role is Role.PRIMARY for node in facts.nodes):
        return
    yield Alert(
        Level.CRITICAL, "", "no node is assigned to be the primary",
        "The state files of all nodes say secondary or relay.",
        f"compare the state.json in the data directories with `{facts.commands.zodbrepl('check')}`")


def _supervisor(facts: Facts) -> Iterator[Alert]:
    problem = facts.findings.supervisor_problem
    if problem:
        up = facts.commands.zodbrepl("up")
        runs = any(status.reachable for status in facts.nodes) or any(
            instance.up for instance in facts.indico)
        yield Alert(
            Level.WARNING, "", "supervisord does not answer",
            f"{problem}; what stops now is not started again.",
            f"when Indico may be away for some seconds: `{up}` names the processes to end first; "
            "end them and give it again" if runs else f"start everything: `{up}`")


def _public_addresses(facts: Facts) -> Iterator[Alert]:
    public = [f"{endpoint} ({endpoint.address})" for endpoint in facts.cluster.endpoints()
              if _is_public(endpoint.address.host)]
    if public:
        yield Alert(
            Level.NOTICE, "", "listens on public addresses without TLS",
            f"{', '.join(public)}. Whoever reaches a replication port receives the whole database.",
            "bind to private addresses and connect hosts through WireGuard, ssh or stunnel; "
            f"the addresses are in `{facts.commands.path(facts.cluster.source)}`")


def _is_public(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_unspecified or not any(address in network for network in PRIVATE_NETWORKS)
