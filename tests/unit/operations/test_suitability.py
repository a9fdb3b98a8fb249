"""What the readings of a host mean for a cluster."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.host.datafs_answers import BlobAudit, MissingBlob
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.system import Folder, Port, Secret, System
from indico_zodbrepl.operations import suitability
from indico_zodbrepl.operations.model import Verdict
from indico_zodbrepl.operations.suitability import judge

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
GIB = 1 << 30
ROOMY = Disk(500 * GIB, 1000 * GIB, 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(EXAMPLE, tmp_path)


def folder(purpose: str, disk: Disk = ROOMY, **values: Any) -> Folder:
    given = {"owner": "indico", "kind": "ext4", "fsync_ms": 1.5, **values}
    return Folder(Path(f"/srv/{purpose}"), purpose, disk=disk, **given)


def on_another_disk() -> Disk:
    return dataclasses.replace(ROOMY, device=2)


GOOD = System(
    user="indico",
    synchronised=True,
    cores=4,
    memory=8 * GIB,
    open_files=65536,
    processes=None,
    ephemeral=(32768, 60999),
    reserved=frozenset(),
    folders=(folder("data of node a"), folder("data of node b", on_another_disk())),
    secrets=(Secret(Path("/etc/site.conf"), "site-conf", 0o640),),
    ports=(),
)


def complaints(cluster: Cluster, system: System) -> dict[str, Verdict]:
    """The subjects of what is not fine, and how bad each is."""
    found = judge(cluster, system)
    return {each.subject: each.verdict for each in found if each.verdict is not Verdict.FINE}


def test_a_good_host_has_nothing_to_complain_about(cluster: Cluster) -> None:
    assert complaints(cluster, GOOD) == {}


def test_each_finding_is_one_line(cluster: Cluster) -> None:
    assert not any("\n" in each.text for each in judge(cluster, GOOD))


@pytest.mark.parametrize(
    ("change", "subject", "verdict"),
    [
        ({"user": "root"}, "user", Verdict.AGAINST),
        ({"synchronised": False}, "clock", Verdict.WARNING),
        ({"synchronised": None}, "clock", Verdict.WARNING),
        ({"cores": 2}, "processors", Verdict.WARNING),
        ({"memory": 2 * GIB}, "memory", Verdict.WARNING),
        ({"open_files": 1023}, "open files", Verdict.AGAINST),
        ({"open_files": 1024}, "open files", Verdict.WARNING),
        ({"processes": 199}, "processes", Verdict.AGAINST),
    ],
)
def test_what_a_host_lacks_is_named(
    cluster: Cluster, change: dict[str, Any], subject: str, verdict: Verdict
) -> None:
    system = dataclasses.replace(GOOD, user="indico")
    changed = dataclasses.replace(system, **change)
    if "user" in change:  # what the folders' owner would say is another finding
        changed = dataclasses.replace(changed, folders=())
    assert {subject: verdict} == complaints(cluster, changed)


@pytest.mark.parametrize(
    ("values", "subject", "verdict"),
    [
        ({"owner": "postgres"}, "backups", Verdict.AGAINST),
        ({"mode": 0o750}, "backups", Verdict.WARNING),
        ({"problem": "Read-only file system"}, "backups", Verdict.AGAINST),
        ({"there": False, "makeable": False}, "backups", Verdict.AGAINST),
        ({"kind": "tmpfs"}, "disk of backups", Verdict.AGAINST),
        ({"kind": "nfs4"}, "disk of backups", Verdict.WARNING),
        ({"fsync_ms": 25.0}, "disk of backups", Verdict.WARNING),
        ({"disk": Disk(GIB, 100 * GIB, 3)}, "disk of backups", Verdict.WARNING),
        ({"disk": Disk(1 << 20, 100 * GIB, 3)}, "disk of backups", Verdict.AGAINST),
        ({"disk": Disk(GIB, GIB, 3, 5, 1000000)}, "disk of backups", Verdict.AGAINST),
    ],
)
def test_what_is_wrong_with_a_folder_is_named(
    cluster: Cluster, values: dict[str, Any], subject: str, verdict: Verdict
) -> None:
    elsewhere = dataclasses.replace(ROOMY, device=3)
    system = dataclasses.replace(
        GOOD, folders=(folder("backups", **{"disk": elsewhere, **values}),)
    )
    assert {subject: verdict} == complaints(cluster, system)


def test_a_missing_folder_that_can_be_made_is_fine(cluster: Cluster) -> None:
    missing = folder("data of node a", there=False, makeable=True, owner="")
    assert complaints(cluster, dataclasses.replace(GOOD, folders=(missing,))) == {}


@pytest.mark.parametrize("second", ["data of node b", "backups"])
def test_what_is_lost_with_one_disk_is_named(cluster: Cluster, second: str) -> None:
    folders = (folder("data of node a"), folder(second))
    system = dataclasses.replace(GOOD, folders=folders)
    assert {"one disk": Verdict.WARNING} == complaints(cluster, system)
    (text,) = [each.text for each in judge(cluster, system) if each.subject == "one disk"]
    assert second.split(maxsplit=1)[0] in text


@pytest.mark.parametrize(
    "secret",
    [
        Secret(Path("/etc/site.conf"), "site-conf", 0o644),
        Secret(Path("/etc/site.conf"), "site-conf", 0, "Permission denied"),
    ],
)
def test_a_secret_that_all_can_read_or_we_cannot_is_named(cluster: Cluster, secret: Secret) -> None:
    system = dataclasses.replace(GOOD, secrets=(secret,))
    assert {"site-conf": Verdict.AGAINST} == complaints(cluster, system)


def test_a_port_that_another_program_has_is_named(cluster: Cluster) -> None:
    endpoint = next(cluster.endpoints())
    taken = Port(endpoint, "taken by process 7: nginx")
    system = dataclasses.replace(GOOD, ports=(taken, Port(endpoint, ours=True), Port(endpoint)))
    assert {"port": Verdict.AGAINST} == complaints(cluster, system)
    assert "1 free, 1 used by this cluster" == judge(cluster, system)[-1].text


def test_ports_that_the_kernel_gives_to_others_are_named_unless_reserved(cluster: Cluster) -> None:
    endpoint = next(cluster.endpoints())
    number = endpoint.address.port
    system = dataclasses.replace(GOOD, ports=(Port(endpoint),), ephemeral=(number, number))
    assert {"ports": Verdict.WARNING} == complaints(cluster, system)
    reserved = dataclasses.replace(system, reserved=frozenset({number}))
    assert complaints(cluster, reserved) == {}


BLOBS = BlobAudit(3, 1 << 20, 0, None, 0, 0, None)


def test_a_node_with_all_files_of_its_blobs_says_how_many() -> None:
    (finding,) = suitability.blobs("a", BLOBS)
    assert (Verdict.FINE, "3 blob files, 1.00 MiB") == (finding.verdict, finding.text)
    assert [] == list(suitability.blobs("a", None))
    assert [] == list(suitability.blobs("a", dataclasses.replace(BLOBS, blobs=0)))


def test_missing_files_of_blobs_are_against_a_cluster_and_files_left_over_a_warning() -> None:
    missing = MissingBlob("0a", "0400000000000001", "0x00/0x0400000000000001.blob")
    found = dataclasses.replace(
        BLOBS,
        missing=2,
        first_missing=missing,
        unreferenced=1,
        unreferenced_bytes=1 << 20,
        first_unreferenced="0x01/0x0300000000000000.blob",
    )
    against, warning = suitability.blobs("a", found)
    assert (Verdict.AGAINST, Verdict.WARNING) == (against.verdict, warning.verdict)
    assert "2 blob files missing, the newest of them 0x00/0x0400000000000001.blob" in (against.text)
    assert "1 blob file (1.00 MiB) without a transaction, such as 0x01" in warning.text
