"""Each field of the snapshot's JSON is documented, and no other."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from indico_zodbrepl.host.data_end import DataEnd
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.monitor import host_status, node_status, snapshot
from indico_zodbrepl.probing import answers
from indico_zodbrepl.probing.answers import Acknowledging, RefusedFollower, WriteFailure

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "status-json.md").read_text()
SECTIONS: dict[str, tuple[list[type], set[str]]] = {
    "The object itself": ([snapshot.Snapshot], {"code"}),
    "An entry of `nodes`": ([node_status.NodeStatus], set()),
    "An entry of `indico`": ([snapshot.IndicoStatus], set()),
    "An entry of `hosts`": ([host_status.HostStatus], set()),
    "`automation`": ([host_status.Automation], set()),
    "`backup`": ([host_status.BackupStatus], set()),
    "`etcd`": ([host_status.EtcdStatus], set()),
    "An entry of `warnings`": ([answers.Alert], set()),
    "An entry of `records`": ([snapshot.EpochWord], set()),
    "An entry of `operations`": ([snapshot.OpenOperation], set()),
}


@pytest.mark.parametrize("title", SECTIONS)
def test_the_page_has_each_field_and_no_other(title: str) -> None:
    classes, added = SECTIONS[title]
    (text,) = re.findall(
        rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL
    )
    rows = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    fields = {field.name for each in classes for field in dataclasses.fields(each)} | added
    assert fields == {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize(
    "part",
    [
        node_status.Program,
        node_status.StartRefusal,
        host_status.Candidate,
        host_status.EtcdMember,
        host_status.Pause,
        Acknowledging,
        RefusedFollower,
        Disk,
        DataEnd,
        WriteFailure,
    ],
)
def test_small_parts_are_described_in_words(part: type) -> None:
    for field in dataclasses.fields(part):
        assert f"`{field.name}`" in PAGE
