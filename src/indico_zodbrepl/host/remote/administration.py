"""What an agent does for the administration of the hosts: cluster file and certificates.

These calls work between hosts whose cluster files differ, and on one whose file is invalid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import certificates, cluster_file, renewal, secrets
from indico_zodbrepl.host.supervisor import is_away


class HostAdministration(Protocol):
    """The administration of one host.  All methods raise OperatorError."""

    def cluster_file(self) -> str:
        """Return the text of the host's cluster file."""

    def check_cluster_file(self, text: str) -> None:
        """Raise OperatorError if the host would refuse a cluster file; change nothing."""

    def replace_cluster_file(self, text: str, replaces: str) -> bool:
        """Replace the cluster file; see ``cluster_file.replace``."""

    def secret_names(self) -> list[str]:
        """Return the names of the host's shared secrets."""

    def add_secrets(self, secrets_by_name: dict[str, str]) -> list[str]:
        """Write the shared secrets that the host lacks; return their names."""

    def replace_certificates(self, authorities: str, own: str) -> bool:
        """Replace certificates; see ``renewal.install``."""

    def leave(self) -> bool:
        """Remove the host's certificate and key, and stop its agent; False if it has none."""


class Administration:
    """See ``HostAdministration``.

    Args:
        cluster: as the last valid cluster file said.
        renew: makes the agent and the tunnel use the certificates that are there now.
        stop: stops the agent soon.
    """

    def __init__(
        self,
        cluster: Cluster,
        installation: Installation,
        renew: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._installation = installation
        self._renew = renew
        self._stop = stop

    def cluster_file(self) -> str:
        try:
            return self._cluster.source.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OperatorError(
                "the cluster file can't be read", f"{self._cluster.source}: {error}"
            ) from error

    def check_cluster_file(self, text: str) -> None:
        if text != self.cluster_file():
            cluster_file.check(self._cluster, self._installation.home, text)

    def replace_cluster_file(self, text: str, replaces: str) -> bool:
        return cluster_file.replace(self._cluster, self._installation.home, text, replaces)

    def secret_names(self) -> list[str]:
        return list(secrets.shared(self._cluster))

    def add_secrets(self, secrets_by_name: dict[str, str]) -> list[str]:
        return secrets.add_shared(self._cluster, secrets_by_name)

    def replace_certificates(self, authorities: str, own: str) -> bool:
        here = self._cluster.host(str(self._cluster.here))
        changed = renewal.install(Layout(self._cluster).tls, here, authorities, own)
        self._renew()
        return changed

    def leave(self) -> bool:
        folder = Layout(self._cluster).tls
        if certificates.authority_key_file(folder).exists():
            raise OperatorError(
                f"host {self._cluster.here} issues the certificates of the cluster",
                f"{certificates.authority_key_file(folder)} exists",
                "let another host issue them first; on it: bin/zodbrepl hosts "
                "rotate-certificates --authority",
                ExitCode.REFUSED,
            )
        if not is_away(self._cluster):
            raise OperatorError(
                f"programs run on host {self._cluster.here}",
                "supervisord runs there",
                "stop them there: bin/zodbrepl down --this-host",
                ExitCode.REFUSED,
            )
        path = certificates.own_file(folder)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise certificates.unusable(path, error) from error
        self._stop()
        return True
