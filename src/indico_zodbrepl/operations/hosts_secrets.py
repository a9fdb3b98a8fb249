"""Give the hosts of a cluster the shared secrets that they lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import secrets
from indico_zodbrepl.host.remote import identities
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.operations.model import Context

Names = Mapping[str, list[str] | OperatorError]


def lacking(cluster: Cluster) -> dict[str, list[str]]:
    """Return the secrets of this host that others lack, by host; only of hosts that answer."""
    return _lacking(secrets.shared(cluster), _names(cluster))


def give(context: Context) -> list[str]:
    """Make the shared secrets, and give each host those that it lacks; return these hosts.

    No password is made here while another host has one that this host lacks.
    """
    cluster = context.cluster
    names = _names(cluster)
    elsewhere = {name for each in names.values() if isinstance(each, list) for name in each}
    unknown = sorted(elsewhere - set(secrets.shared(cluster)))
    if unknown:
        context.note(
            f"this host lacks secrets that others have: {', '.join(unknown)}; "
            "hosts push on one of them gives them to this host"
        )
    else:
        secrets.make_shared(cluster)
    own = secrets.shared(cluster)
    wanted = _lacking(own, names)

    def add(name: str) -> None:
        sent = {"secrets_by_name": {each: own[each] for each in wanted[name]}}
        AgentClient(cluster, cluster.host(name)).call("hosts.add_secrets", sent)

    answers = identities.of_hosts(wanted, add)
    for name, error in answers.items():
        listed = ", ".join(wanted[name])
        if isinstance(error, OperatorError):
            context.note(f"host {name} lacks {listed}: {error.notice}: {error.detail}")
        else:
            context.say(f"gave host {name} the secrets that it lacked: {listed}")
    return [name for name, error in answers.items() if error is None]


def _names(cluster: Cluster) -> Names:
    """Return the names of the shared secrets of the other hosts."""

    def ask(name: str) -> list[str]:
        client = AgentClient(cluster, cluster.host(name))
        return list(client.call("hosts.secret_names", {}))

    return identities.of_hosts(
        [each.name for each in cluster.hosts if each.name != cluster.here], ask
    )


def _lacking(own: Iterable[str], names: Names) -> dict[str, list[str]]:
    found = {
        host: sorted(set(own) - set(each)) for host, each in names.items() if isinstance(each, list)
    }
    return {host: wanted for host, wanted in found.items() if wanted}
