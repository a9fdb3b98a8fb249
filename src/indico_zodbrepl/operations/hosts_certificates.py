"""Give all hosts new certificates while everything runs, and a new authority if asked for.

What is left to do is seen from what the agents use: an interrupted rotation is continued by the
same command.
"""

from __future__ import annotations

from collections.abc import Mapping

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import own_host
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import authority, certificates, renewal
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.interface import DryRun, HostAwayError
from indico_zodbrepl.host.remote import identities
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.host.remote.identities import Seen
from indico_zodbrepl.operations.hosts import unfinished
from indico_zodbrepl.operations.model import Context, Figures
from indico_zodbrepl.operations.single import Single

NOTHING_INVALID = "no certificate became invalid, and nothing was interrupted"


class Rotate(Single):
    """All hosts get new certificates; with ``authority``, of a new authority.

    A new authority is trusted by all before a host uses its certificate, and the old one is trusted
    until no host uses one of its certificates.
    """

    action = "hosts-rotate-certificates"
    verb = "hosts rotate-certificates"
    words = "Give all hosts of {name} new certificates"
    kept = ("authority", "renewed")

    def checked(self, cluster: Cluster, _installation: Installation) -> DryRun:
        own_host(cluster)
        seen = identities.collect(cluster, identities.LONG_SECONDS)
        takes_over = self._takes_over(cluster)
        does = []
        if self._authority:
            if takes_over:
                does.append(
                    "create a new authority on this host: it issues certificates from now on"
                )
            elif not _is_unfinished(cluster, seen):
                does.append("create a new authority on this host")
            does.append("let all hosts trust the new and the old authority")
        names = [host.name for host in cluster.hosts]
        does.append(f"give new certificates to hosts {', '.join(names)}, which use them at once")
        if self._authority:
            does.append("let all hosts trust the new authority only")
        return DryRun(
            tuple(_valid(name, each) for name, each in seen.items() if isinstance(each, Seen)),
            tuple(does),
            tuple(
                f"host {name} is left out: {each.detail or each.notice}"
                for name, each in seen.items()
                if isinstance(each, OperatorError)
            ),
        )

    def do(self, context: Context) -> Figures:
        cluster = context.cluster
        own_host(cluster)
        takes_over = self._takes_over(cluster)
        if self._authority:
            renewed = self._rotate_authority(context, takes_over=takes_over)
        else:
            renewed = self._renew(context, [host.name for host in cluster.hosts])
        return {"authority": self._authority, "renewed": list(renewed)}

    @property
    def _authority(self) -> bool:
        return bool(self.arguments["authority"])

    def _takes_over(self, cluster: Cluster) -> bool:
        """Return True if this host becomes the one that issues certificates.

        Raises OperatorError (exit 8) if it does not issue them, and is to.
        """
        folder = Layout(cluster).tls
        if self._authority and not authority.issues(folder):
            return True
        authority.current(folder)
        return False

    def _rotate_authority(self, context: Context, *, takes_over: bool) -> list[str]:
        cluster, folder = context.cluster, Layout(context.cluster).tls
        seen = identities.collect(cluster, identities.LONG_SECONDS)
        if takes_over:
            authority.take_over(folder, cluster.name)
            context.say("created a new authority: this host issues certificates from now on")
        elif _is_unfinished(cluster, seen):
            context.say("continuing a rotation that was not finished")
        else:
            authority.rotate(folder, cluster.name)
            context.say("created a new authority")
        self._distribute(context)
        context.say("all hosts trust the new authority, and the old one")
        current = authority.current(folder)
        seen = identities.collect(cluster, identities.LONG_SECONDS)
        left = [
            name
            for name, each in seen.items()
            if not (isinstance(each, Seen) and each.identity.issuer == current)
        ]
        renewed = self._renew(context, left)
        authority.retire(folder)
        self._distribute(context)
        context.say("all hosts trust the new authority only")
        return renewed

    def _distribute(self, context: Context) -> None:
        """Give all hosts this host's authorities.  Raises OperatorError if one does not get them.

        This host is the last one: its own agent goes on trusting what the others use.
        """
        cluster, folder = context.cluster, Layout(context.cluster).tls
        text = certificates.pem(certificates.trusted(folder))

        def give(name: str) -> None:
            _replace(cluster, name, authorities=text)

        others = [host.name for host in cluster.hosts if host.name != cluster.here]
        failed = _failed(identities.of_hosts(others, give))
        failed |= _failed(identities.of_hosts([str(cluster.here)], give))
        if failed:
            names = ", ".join(failed)
            raise unfinished(failed, f"the rotation waits for host {names}: {NOTHING_INVALID}")

    def _renew(self, context: Context, names: list[str]) -> list[str]:
        """Give hosts new certificates; return them.  Raises OperatorError if one is left."""
        cluster, folder = context.cluster, Layout(context.cluster).tls

        def renew(name: str) -> None:
            host = cluster.host(name)
            issued = authority.issue(folder, name, Role.HOST, host.address)
            _replace(cluster, name, own=issued.pem)

        answers = identities.of_hosts(names, renew)
        failed = _failed(answers)
        renewed = [name for name in names if name not in failed]
        for name in renewed:
            context.say(f"host {name} uses a new certificate")
        if failed:
            notice = f"host {', '.join(failed)} keeps its certificate: {NOTHING_INVALID}"
            raise unfinished(failed, notice)
        return renewed


def _replace(cluster: Cluster, name: str, authorities: str = "", own: str = "") -> None:
    """Replace certificates of a host; of this one also without its agent."""
    arguments = {"authorities": authorities, "own": own}
    try:
        AgentClient(cluster, cluster.host(name)).call("hosts.replace_certificates", arguments)
    except HostAwayError:
        if name != cluster.here:
            raise
        renewal.install(Layout(cluster).tls, cluster.host(name), authorities, own)


def _is_unfinished(cluster: Cluster, seen: Mapping[str, Seen | OperatorError]) -> bool:
    """Return True if this host trusts two authorities, or another one trusts others."""
    held = renewal.held(Layout(cluster).tls)
    return len(held.authorities) > 1 or any(
        isinstance(each, Seen) and each.identity.authorities != held.authorities
        for each in seen.values()
    )


def _failed(answers: Mapping[str, OperatorError | None]) -> dict[str, OperatorError]:
    return {name: each for name, each in answers.items() if isinstance(each, OperatorError)}


def _valid(name: str, seen: Seen) -> str:
    days = (seen.identity.certificate_until - seen.identity.now) / 86400
    return f"the certificate of host {name} is valid for {days:.0f} days"
