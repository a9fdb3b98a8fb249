"""An isolated primary comes back: what only it has is exported, reported and recovered.

Commits are not acknowledged by other nodes, so programs on the isolated host commit until the
lease ends.  Nobody types a command before the export is recovered.
"""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from automatic import Automatic
from counted import Counted, exported_numbers, served
from patience import wait_until
from three import later

from indico_zodbrepl.demo.lab import Lab

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="no etcd here; as root: apt-get install etcd-server"
)


@pytest.fixture(scope="module")
def cluster(shared_lab: Lab) -> Automatic:
    made = Automatic(shared_lab)
    made.up()
    return made


def test_divergent_transactions_are_exported_reported_and_recovered(cluster: Automatic) -> None:
    former = cluster.primary("h2")
    host = cluster.host_of(former)
    other = next(each.name for each in cluster.lab if each.name != host)
    with Counted(cluster, other) as remote:
        with Counted(cluster, host, 10**6, tree="numbers of the isolated host") as local:
            cluster.lab.network.isolate(host)
            assert wait_until(lambda: is_replaced(cluster, other, former), later())
            remote.see_more()
        cluster.lab.network.heal()
        cluster.see_whole()
    acknowledged = set(local.acknowledged) | set(remote.acknowledged)
    present = served(cluster, other, former)
    assert present == served(cluster, other, cluster.primary(other))
    missing = acknowledged - present
    assert missing, "nothing was committed on the isolated host alone"
    assert missing <= exported_numbers(cluster)

    # Somebody is told, on any host.
    rejoin = newest(cluster, other, "rejoin")
    assert ("automation", "done", former) == (
        rejoin["actor"],
        rejoin["outcome"],
        rejoin["plan"]["target"],
    )
    export = next(cluster.lab[host].folder.glob("var/lost-tails/*")).name
    assert export in cluster.zodbrepl(other, "journal", rejoin["id"]).stdout
    assert export in notices(cluster, other)

    # The other writer may have lost its last commit too, and has changed the same tree since.
    said = cluster.zodbrepl(other, "recover", export, "--all", code=None)
    assert set(local.acknowledged) <= served(cluster, host, former), said.stdout + said.stderr
    cluster.see_whole()
    assert export not in notices(cluster, other)


def is_replaced(cluster: Automatic, host: str, former: str) -> bool:
    return cluster.status(host)["primary"] not in (None, former)


def newest(cluster: Automatic, host: str, operation: str) -> dict[str, Any]:
    """Return the newest operation of a kind, as the journal of a host shows it."""
    return [each for each in cluster.journal(host) if each["operation"] == operation][-1]


def notices(cluster: Automatic, host: str) -> str:
    return " ".join(each["text"] for each in cluster.status(host)["warnings"])
