"""A tail that was exported before is used again only if it has all that would be lost now."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs
from indico_zodbrepl.host.exports import NEW_SECONDS, contents, unrecovered
from indico_zodbrepl.operations.exports import exported_before
from indico_zodbrepl.operations.model import Context, Plan
from indico_zodbrepl.operations.rejoin_steps import Export

HOME = home_from_environment()
COMMIT = """
import sys
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.utils import z64
storage = FileStorage(sys.argv[1])
for number in range(int(sys.argv[2])):
    meta = TransactionMetaData(u'', u'', {})
    storage.tpc_begin(meta)
    storage.store(storage.new_oid(), z64, 100 * b'x', '', meta)
    storage.tpc_vote(meta)
    storage.tpc_finish(meta)
print(storage.lastTransaction().encode('hex'))
"""


def commit(cluster: Cluster, count: int) -> str:
    """The last transaction of node a afterwards."""
    return subprocess.run(
        [Installation(HOME).python27, "-c", COMMIT, data_fs(cluster.node("a")), str(count)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster.conf").read_text())
    made = load(path, tmp_path)
    made.node("a").data_directory.mkdir(parents=True)
    return made


def export(cluster: Cluster, after: str, name: str) -> Path:
    folder = Layout(cluster).lost_tails / name
    folder.parent.mkdir(exist_ok=True)
    return datafs.export(Installation(HOME), data_fs(cluster.node("a")), after, folder).folder


def found(cluster: Cluster, after: str) -> Path | None:
    return exported_before(cluster, Installation(HOME), cluster.node("a"), after)


def test_an_export_is_found_as_long_as_it_has_everything(cluster: Cluster) -> None:
    common = commit(cluster, 2)
    assert found(cluster, common) is None
    first = commit(cluster, 1)
    folder = export(cluster, common, "a-2-x")
    assert folder == found(cluster, common)
    assert found(cluster, first) is None
    shutil.copytree(folder, folder.with_name("b-2-x"))
    shutil.rmtree(folder)
    assert found(cluster, common) is None, "it is named as another node's"
    shutil.copytree(folder.with_name("b-2-x"), folder)
    commit(cluster, 1)
    assert found(cluster, common) is None, "it lacks the newest"


@pytest.mark.parametrize("what", ["file", "tid", "torn", "gone"])
def test_an_export_that_is_another_ones_or_damaged_is_not_used(cluster: Cluster, what: str) -> None:
    common = commit(cluster, 1)
    commit(cluster, 3)
    folder = export(cluster, common, "a-2-x")
    path = folder / "tail.json"
    kept = json.loads(path.read_text())
    if what == "file":
        path.write_text(json.dumps(kept | {"file": "/elsewhere/Data.fs"}))
    elif what == "tid":
        del kept["transactions"][1]
        path.write_text(json.dumps(kept))
    elif what == "torn":
        path.write_text(path.read_text()[:-10])
    else:
        (folder / "tail.fs").unlink()
    assert found(cluster, common) is None


def test_the_step_looks_again_and_refuses_what_lacks_something_without_a_quarantine(
    cluster: Cluster,
) -> None:
    common = commit(cluster, 1)
    commit(cluster, 2)
    folder = export(cluster, common, "a-2-x")
    step = Export(
        "a",
        {"after": common, "folder": str(folder), "private": 2, "reused": True},
        title="Use it",
        seconds=60.0,
        after_no_return=False,
    )
    context = Context(
        cluster,
        Installation(HOME),
        Plan("rejoin", "a", "b", "", 2, (), None, ()),
        {},
        lambda _text: None,
        0.0,
    )
    before = sorted(folder.parent.iterdir())
    told = step.do(context)
    assert str(folder) == told["exported_to"]
    assert "lost_transactions" not in told  # the failover that exported them has counted them
    commit(cluster, 1)
    with pytest.raises(OperatorError, match="has not what a would lose now") as refused:
        dataclasses.replace(step).do(context)
    assert ExitCode.REFUSED is refused.value.exit_code
    assert before == sorted(folder.parent.iterdir())
    assert not (cluster.node("a").data_directory / "lineage.json").exists()


def listed(folder: Path, *objects: tuple[str, str, str | None]) -> Path:
    folder.mkdir()
    (folder / "tail.json").write_text(
        json.dumps(
            {
                "transactions": [
                    {
                        "objects": [
                            {"oid": oid, "class": kind, "what": what} for oid, kind, what in objects
                        ]
                    }
                ]
            }
        )
    )
    return folder


def test_of_what_was_exported_the_conferences_come_first_and_internals_last(tmp_path: Path) -> None:
    assert [
        'Conference 7 "Spring"',
        'Contribution 1 "Talk"',
        'Category 3 "Physics"',
        'Avatar 4 "Ann Lee"',
        "ConferenceModificationLog 9",
        "and 2 more objects",
    ] == contents(
        listed(
            tmp_path / "tail",
            ("01", "BTrees.OOBTree.OOBTree", None),
            ("02", "MaKaC.x.ConferenceModificationLog", "ConferenceModificationLog 9"),
            ("03", "MaKaC.user.Avatar", 'Avatar 4 "Ann Lee"'),
            ("04", "MaKaC.conference.Category", 'Category 3 "Physics"'),
            ("05", "MaKaC.conference.Contribution", 'Contribution 1 "Talk"'),
            ("06", "MaKaC.conference.Conference", 'Conference 7 "Winter"'),
            ("06", "MaKaC.conference.Conference", 'Conference 7 "Spring"'),
            ("07", "persistent.mapping.PersistentMapping", None),
        )
    )


def test_a_long_list_names_ten_and_counts_the_rest(tmp_path: Path) -> None:
    found = contents(
        listed(
            tmp_path / "tail",
            *(
                (f"{number}", "MaKaC.conference.Conference", f'Conference {number} "x"')
                for number in range(11)
            ),
        )
    )
    assert (11, "and 1 more object") == (len(found), found[-1])


def test_a_folder_without_a_list_names_nothing(tmp_path: Path) -> None:
    assert [] == contents(tmp_path)


def test_new_exports_from_which_nothing_was_recovered_are_reported(cluster: Cluster) -> None:
    assert unrecovered(cluster) == ()
    exports = Layout(cluster).lost_tails
    for name in ("new", "old", "recovered", "unfinished"):
        (exports / name).mkdir(parents=True)
        if name != "unfinished":
            (exports / name / "tail.json").write_text("{}")
    (exports / "recovered" / "salvaged.json").write_text("{}")
    long_ago = time.time() - NEW_SECONDS - 60
    os.utime(exports / "old" / "tail.json", (long_ago, long_ago))
    assert unrecovered(cluster) == ("new",)
