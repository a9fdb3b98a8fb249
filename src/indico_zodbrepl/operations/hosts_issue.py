"""Issue certificates to those who are no host: operators and monitoring systems."""

from __future__ import annotations

from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.datatypes import NAME
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import own_host
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import authority, bundle, certificates
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.interface import DryRun
from indico_zodbrepl.operations.model import Context, Figures
from indico_zodbrepl.operations.single import Single

ROLES = (Role.OPERATOR, Role.MONITOR)
MAY = {
    Role.OPERATOR: "opens the pages of all hosts, and may call their agents",
    Role.MONITOR: "opens the pages of all hosts, and may read from their agents",
}


class Issue(Single):
    """An operator or a monitoring system gets a certificate, in a file for its owner only."""

    action = "hosts-issue"
    verb = "hosts issue"
    words = "Issue a certificate with the role {role} to {name}"
    kept = ("role", "file")

    def checked(self, cluster: Cluster, _installation: Installation) -> DryRun:
        own, file = own_host(cluster), Path(self.text("file"))
        if not NAME.fullmatch(self.subject):
            raise OperatorError(
                f"{self.subject!r} can't be the name in a certificate",
                "it begins with a lower-case letter; letters, digits and hyphens follow, 32 in all",
                exit_code=ExitCode.BAD_CONFIG,
            )
        authority.current(Layout(cluster).tls)
        bundle.check_file(file, "certificate")
        return DryRun(
            (f"host {own.name} issues the certificates of {cluster.name}",),
            (
                f"issue a certificate for {authority.LIFETIME.days} days",
                f"let {self.subject} have it: who has it {MAY[self._role]}",
                f"write it with its key and the authorities to {file}, mode 0600",
            ),
        )

    def do(self, context: Context) -> Figures:
        cluster, file = context.cluster, Path(self.text("file"))
        self.checked(cluster, context.installation)
        folder = Layout(cluster).tls
        issued = authority.issue(folder, self.subject, self._role)
        trusted = certificates.authorities_file(folder).read_text()
        bundle.write(file, (issued.pem + trusted).encode(), "certificate")
        context.say(f"wrote {file}: who has it {MAY[self._role]}")
        context.note(
            f"to try it: curl --cert {file} --cacert {file} "
            f"https://{cluster.host(str(cluster.admin.on)).address}:{cluster.admin.port}/"
        )
        context.note(
            "it ends with its lifetime, or all at once: bin/zodbrepl hosts rotate-certificates "
            "--authority"
        )
        return {"role": str(self._role), "file": str(file)}

    @property
    def _role(self) -> Role:
        return Role(self.text("role"))
