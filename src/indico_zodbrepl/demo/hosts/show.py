"""The text that the demo on several hosts prints when it is ready."""

from __future__ import annotations

import json
from collections.abc import Iterator

from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.demo import login
from indico_zodbrepl.demo.hosts.inside import COUNTS
from indico_zodbrepl.demo.hosts.machines import Machines
from indico_zodbrepl.demo.show import COUNTED, TITLES
from indico_zodbrepl.host import secrets

COMMAND = "bin/zodbrepl demo-hosts"


def block(cluster: Cluster, machines: Machines) -> str:
    """Return addresses, logins, and a script of what to try."""
    first, *others = cluster.indico
    filler = machines.folder(first.on)
    page = machines.folder(cluster.admin.on)
    user = secrets.read(secrets.path_in(filler))
    login_file = page / "secrets" / login.FILE_NAME
    operator = json.loads(login_file.read_text())
    found = json.loads((filler / COUNTS).read_text())
    [(node, counts)] = found.items()
    held = ", ".join(f"{counts[what]} {what}" for what in COUNTED)
    return "\n".join(
        [
            f"Indico 1.2.2 on {TITLES[cluster.backend]}, cluster {cluster.name}",
            "",
            *(f"  Host {host.name}      {_programs(cluster, host.name)}" for host in cluster.hosts),
            "",
            f"  Indico       {first.base_url}/  on {first.on}",
            *(f"               {other.base_url}/  on {other.on}" for other in others),
            f"  Log in       {user.login} / {user.password}",
            f"               (also in {secrets.path_in(filler)})",
            f"  Admin page   {cluster.admin.base_url}  on {cluster.admin.on}",
            f"               as {operator['login']} / {operator['password']}",
            f"               (also in {login_file})",
            f"  Data         {held}",
            f"               counted on node {node}; all nodes had the same last transaction",
            "",
            "What to try, in another terminal:",
            "",
            *_script(cluster),
            "",
            "On real machines: docs/how-to/three-machines.md",
        ]
    )


def _programs(cluster: Cluster, host: str) -> str:
    nodes = [f"node {node.name}" for node in cluster.nodes if node.on == host]
    instances = [f"Indico {each.name}" for each in cluster.indico if each.on == host]
    others = [
        what
        for what, each in (("admin page", cluster.admin), ("monitor", cluster.watch))
        if each and each.on == host
    ]
    return ", ".join([*nodes, *instances, *others])


def _script(cluster: Cluster) -> Iterator[str]:
    """Yield what to try: the loss of the primary's host, and its return."""
    primary = next(node for node in cluster.nodes if node.role is Role.PRIMARY)
    others = [host.name for host in cluster.hosts if host.name != primary.on]
    lost, other = primary.on, others[0]
    steps = [
        (
            f"{COMMAND} sh {other} bin/zodbrepl status --watch",
            f"watch the cluster from host {other}; Ctrl-C ends it",
        ),
        (f"{COMMAND} kill {lost}", f"cut the power of {lost}, with the primary {primary.name}"),
        *_after_the_loss(cluster, primary.name, lost or "", other),
        (
            f"{COMMAND} isolate {other}",
            f"cut the network of {other}; {COMMAND} heal connects it again",
        ),
        (f"{COMMAND} sh {lost}", f"a shell on {lost}"),
    ]
    for command, what in steps:
        yield f"  {command}"
        yield f"      {what}"


def _after_the_loss(
    cluster: Cluster, primary: str, lost: str, other: str
) -> Iterator[tuple[str, str]]:
    """Yield the commands that replace the lost primary, and let it follow its successor."""
    if cluster.automatic:
        yield (
            f"{COMMAND} sh {other} bin/zodbrepl journal",
            f"another node took over within {cluster.lease:g} s; or see {cluster.admin.base_url}",
        )
        yield (
            f"{COMMAND} start {lost}",
            f"boot {lost}; node {primary} follows the new primary automatically",
        )
        yield (
            f"{COMMAND} sh {other} bin/zodbrepl pause --reason test",
            "replace no primary until resume-automation",
        )
        return
    yield (
        f"{COMMAND} sh {other} bin/zodbrepl failover",
        f"make another node the primary; or click Fail over on {cluster.admin.base_url}",
    )
    yield (
        f"{COMMAND} start {lost}",
        f"boot {lost}; node {primary} does not start: it missed the promotion",
    )
    yield (
        f"{COMMAND} sh {other} bin/zodbrepl rejoin {primary}",
        "let it follow the new primary; what only it has is exported",
    )
