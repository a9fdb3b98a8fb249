"""An operation that has ended since the monitor looked is not told to be running."""

from __future__ import annotations

from typing import Any

import pytest
import situations
import states

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.monitor.snapshot import OpenOperation

SEEN = OpenOperation(
    "20261120T110659.123Z-failover",
    "failover",
    "b",
    "alice",
    situations.TID_TIME,
    "running",
    at_work=True,
)


def test_one_whose_file_says_that_it_has_ended_has_no_banner(make_client: Any) -> None:
    shown = make_client(operations=(SEEN,)).get("/").text
    assert 'class="banner' not in shown


@pytest.mark.parametrize("name", states.OPERATIONS)
def test_one_that_is_open_has_a_banner(page_of: Any, tmp_path: Any, name: str) -> None:
    cluster = situations.cluster(var_directory=tmp_path)
    with states.operation_in(cluster, name) as snapshot:
        shown = page_of(cluster, lambda: snapshot).get("/").text
    assert "Failover to b" in shown
    assert "Step 3 of 9" in shown


def test_one_whose_file_can_t_be_used_keeps_its_banner(page_of: Any, tmp_path: Any) -> None:
    cluster = situations.cluster(var_directory=tmp_path)
    folder = Layout(cluster).operations
    folder.mkdir(parents=True)
    (folder / f"{SEEN.identifier}.json").write_text("{")
    snapshot = situations.snapshot(cluster, operations=(SEEN,))
    assert "Failover of b is running" in page_of(cluster, lambda: snapshot).get("/").text
