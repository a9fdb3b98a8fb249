"""``etcdctl`` on a host of a lab, with the host's certificate."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.host import certificates


def environment(lab: Lab, hosts: Iterable[str], port: int) -> dict[str, str]:
    """Return the variables with which ``etcdctl`` asks the members of some hosts.

    Args:
        port: on which members listen for clients.
    """
    tls = lab.srv / "var/tls"
    own = str(certificates.own_file(tls))
    return {
        "ETCDCTL_API": "3",
        "ETCDCTL_CACERT": str(certificates.authorities_file(tls)),
        "ETCDCTL_CERT": own,
        "ETCDCTL_KEY": own,
        "ETCDCTL_ENDPOINTS": ",".join(f"https://{lab[host].address}:{port}" for host in hosts),
    }


def etcdctl(
    lab: Lab, host: str, port: int, *arguments: str, check: bool = True, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Ask the member of a host, from there.

    Args:
        text: standard input.
    """
    return lab[host].run(
        *("etcdctl", *arguments), environ=environment(lab, [host], port), check=check, text=text
    )
