"""Fixtures of the integration tests; $ZODBREPL_HOME names the installation they use."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from clusters import ClusterUnderTest, MakeCluster, Roles
from etcd_members import EtcdMembers, etcd_members

from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.cluster.installation import Installation

# Where the tests run in the background SIGINT is ignored, and programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def home() -> Path:
    """The installation: $ZODBREPL_HOME, else the folder of the clone."""
    return Path(os.environ.get("ZODBREPL_HOME", Path(__file__).parents[2])).absolute()


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMembers]:
    """An etcd of one member; skip the module where `etcd_members.BINARY` is None."""
    with etcd_members(tmp_path_factory.mktemp("etcd"), count=1) as found:
        yield found


@pytest.fixture
def make_cluster(tmp_path: Path, home: Path) -> Iterator[MakeCluster]:
    """A function that makes clusters; all are ended after the test, also when it fails."""
    with contextlib.ExitStack() as opened:

        def make(
            nodes: Roles | None = None, indico: tuple[str, ...] = (), folder: Path | None = None
        ) -> ClusterUnderTest:
            folder = folder or tmp_path / "cluster"
            folder.mkdir(parents=True)
            made = ClusterUnderTest(folder, home, nodes, indico)
            opened.callback(made.close)
            return made

        yield make


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> ClusterUnderTest:
    """A primary a and a secondary b without Indico, not started."""
    return make_cluster()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[ClusterUnderTest]:
    """A running primary a and secondary b, for the tests of a module that leave them healthy."""
    with contextlib.closing(ClusterUnderTest(tmp_path_factory.mktemp("shared"), home)) as made:
        made.up()
        yield made


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Sites]:
    """Storages that benchmarks have up, all ended after the module's tests."""
    folder = tmp_path_factory.mktemp("sites")
    folder.chmod(0o755)
    with Sites(Installation(home), folder, lambda _: None) as opened:
        yield opened
