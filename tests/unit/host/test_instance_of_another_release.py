"""A restart replaces workers only if their master runs this release."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.host import starts
from indico_zodbrepl.host.supervisor import ProgramState

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
MASTER = 4711


class Supervisor:
    def __init__(self, _cluster: Cluster) -> None: ...

    def states(self) -> dict[str, ProgramState]:
        return {"indico-one": ProgramState("indico-one", "RUNNING", MASTER, "")}


@pytest.mark.parametrize(
    ("release", "found"), [(__version__, MASTER), ("0.1.0", None), (None, MASTER)]
)
def test_a_master_of_another_release_starts_no_worker_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str | None, found: int | None
) -> None:
    cluster = load(EXAMPLE, tmp_path)
    monkeypatch.setattr(starts, "Supervisor", Supervisor)
    monkeypatch.setattr(starts, "indico_release", lambda _address: release)
    assert found == starts._replaceable(cluster, cluster.indico[0])
