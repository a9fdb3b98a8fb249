"""A leader that could not renew its key because etcd was full comes first afterwards."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indico_zodbrepl.automation import program
from indico_zodbrepl.automation.candidates import Judgement, Verdict
from indico_zodbrepl.automation.observed import Observed
from indico_zodbrepl.automation.timing import now
from indico_zodbrepl.automation.view import Known
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.etcd.problems import EtcdFullError

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
FREE = Leader("b", "h2", 1, 7, why="the first leader")


class Etcd:
    """Keys with the report of each node, which can't be written while it is full."""

    def __init__(self) -> None:
        self.is_full = True
        self.reports: list[str] = []
        self.keys = SimpleNamespace(member=lambda node: node)

    def read(self, key: str, _seconds: float) -> Any:
        return SimpleNamespace(record=f"the report of {key}")

    def put(self, _key: str, report: str, _seconds: float) -> None:
        if self.is_full:
            raise EtcdFullError("database space exceeded")
        self.reports.append(report)


def test_a_candidate_lets_the_leader_come_first_once_etcd_takes_writes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd = Etcd()
    attempts: list[float] = []
    waits: list[float] = []

    class Campaign:
        swapped = False

        def __init__(self, *_arguments: object, **_more: object) -> None:
            attempts.append(now())

        def run(self) -> Judgement:
            if etcd.is_full:
                raise EtcdFullError("database space exceeded")
            return Judgement(Verdict.CANNOT, "no more is asked of this test")

    monkeypatch.setattr(program, "store_of", lambda _cluster: etcd)
    monkeypatch.setattr(program, "Campaign", Campaign)
    made = program.Automation(load(EXAMPLE, tmp_path), Installation(tmp_path))
    monkeypatch.setattr(made, "_wait", waits.append)
    stored: Any = SimpleNamespace(record=FREE)
    known = Known(Observed(FREE, 1, now() - 60, now(), moved=True), stored)

    for _ in range(2):
        with pytest.raises(EtcdFullError):
            made._campaign(stored, known)
    assert len(attempts) == 1  # the second time, only a report was tried
    etcd.is_full = False
    made._campaign(stored, known)
    assert (1, 1) == (len(attempts), len(etcd.reports))
    assert waits[0] > made._timing.renewal
    made._campaign(stored, known)
    assert len(attempts) == 2
