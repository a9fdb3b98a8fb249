"""What `check --system` says of the folder of uploaded files on several hosts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.remote.identities import Seen
from indico_zodbrepl.host.remote.messages import PROTOCOL, Identity
from indico_zodbrepl.operations.hosts_check import archive_findings
from indico_zodbrepl.operations.model import Verdict

AWAY = HostAwayError("host h2 does not answer", "no answer in time")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """The example for several hosts, with instances on h1 and h2."""
    example = Path(__file__).parents[3] / "etc/cluster-hosts.conf"
    return dataclasses.replace(load(example, tmp_path), files=FileStore.ARCHIVE)


def host(name: str, mark: str, problem: str = "") -> Seen:
    said = Identity("demo", name, __version__, PROTOCOL, "present", 0.0)
    said.archive, said.archive_problem = mark, problem
    return Seen(said, 0.0, 0.01)


@pytest.mark.parametrize(
    ("second", "verdict", "text"),
    [
        (host("h2", "m1"), Verdict.FINE, "h1, h2 share one folder and can write"),
        (host("h2", "m2"), Verdict.AGAINST, "h1, h2 share no archive-directory"),
        (host("h2", "m1", "can't write"), Verdict.AGAINST, "h2: can't write"),
        (host("h2", ""), Verdict.WARNING, "unknown whether h1, h2 share archive-directory"),
        (AWAY, Verdict.WARNING, "unknown whether h1, h2 share archive-directory"),
    ],
)
def test_hosts_with_instances_have_to_share_the_folder(
    cluster: Cluster, second: Seen | OperatorError, verdict: Verdict, text: str
) -> None:
    (finding,) = archive_findings(cluster, {"h1": host("h1", "m1"), "h2": second})
    assert verdict is finding.verdict
    assert finding.text.startswith(text)


def test_files_in_the_database_need_no_folder(cluster: Cluster) -> None:
    kept = dataclasses.replace(cluster, files=FileStore.BLOBS)
    assert [] == list(archive_findings(kept, {}))
