"""The callers that an agent refuses although their certificate is valid."""

from __future__ import annotations

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import certificates
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.remote import messages
from indico_zodbrepl.host.remote.codec import ADMINISTRATION
from indico_zodbrepl.host.remote.messages import Call
from indico_zodbrepl.host.remote.roles import LOGS, READS


def refuse_stranger(cluster: Cluster, caller: certificates.Identity) -> None:
    """Raise OperatorError (exit 8) for the certificate of a host that is not in the cluster file.

    So a host that was removed from the file can do nothing, although its certificate is valid.
    """
    if caller.role is not Role.HOST:
        return
    if any((host.name, host.address) == (caller.name, caller.address) for host in cluster.hosts):
        return
    raise OperatorError(
        f"the cluster file of host {cluster.here} has no host {caller.name} at {caller.address}",
        hint="if it is to have it: bin/zodbrepl hosts push, on a host with the right file",
        exit_code=ExitCode.REFUSED,
    )


def refuse_protocol(cluster: Cluster, call: Call) -> None:
    """Raise OperatorError (exit 8) for a caller whose release asks in another way."""
    if call.protocol == messages.PROTOCOL:
        return
    raise OperatorError(
        f"host {cluster.here} runs another release: {__version__}",
        f"its agent speaks protocol {messages.PROTOCOL}, the caller {call.protocol}",
        "install the same release on all hosts: docs/how-to/upgrade.md",
        ExitCode.REFUSED,
    )


def refuse_other(cluster: Cluster, call: Call, method: str) -> None:
    """Raise OperatorError (exit 8) for a call that is meant for another cluster or another file.

    What only reads is answered whatever the caller's cluster file says, and cluster files and
    certificates are distributed although the files differ.
    """
    if call.cluster != cluster.name:
        raise OperatorError(
            f"host {cluster.here} belongs to cluster {cluster.name}, not to {call.cluster}",
            exit_code=ExitCode.REFUSED,
        )
    if method in READS | LOGS or method.startswith(ADMINISTRATION):
        return
    if call.config != messages.digest_of(cluster):
        raise OperatorError(
            f"the cluster file of host {cluster.here} is another one",
            f"{cluster.source} there differs from the file of the host that sends the command",
            "compare them: bin/zodbrepl hosts push --dry-run; then, on the host with the right "
            "one: bin/zodbrepl hosts push",
            ExitCode.REFUSED,
        )
