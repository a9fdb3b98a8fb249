"""The state file of a node."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, Forced, NodeState, Role, load
from indico_zodbrepl.cluster.files import write_all, write_atomically
from indico_zodbrepl.cluster.layout import state_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import state

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
GOOD = {
    "format": 2,
    "cluster": "demo",
    "node": "a",
    "role": "primary",
    "upstream": None,
    "epoch": 1,
    "forced": None,
}
FORCED = {"actor": "ann", "reason": "host b burnt down", "at": "2026-02-03T04:05:06Z"}

WRITER_KILLED_BEFORE_THE_RENAME = """
import os, signal, sys
from pathlib import Path
from indico_zodbrepl.cluster.files import write_atomically
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_atomically(Path(sys.argv[1]), "half")
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    loaded = load(EXAMPLE, tmp_path)
    for node in loaded.nodes:
        node.data_directory.mkdir(parents=True)
    return loaded


def test_what_is_written_is_read_again(cluster: Cluster) -> None:
    node = cluster.node("b")
    written = NodeState("demo", "b", Role.RELAY, "a", epoch=12)
    state.write(node, written)
    assert written == state.current(cluster, node)


def test_who_forced_a_node_is_kept(cluster: Cluster) -> None:
    written = NodeState("demo", "a", Role.PRIMARY, None, 2, Forced(**FORCED))
    state.write(cluster.node("a"), written)
    assert written == state.current(cluster, cluster.node("a"))


def test_a_file_of_the_first_format_is_still_read(cluster: Cluster) -> None:
    old = {key: value for key, value in GOOD.items() if key != "forced"} | {"format": 1}
    state_file(cluster.node("a")).write_text(json.dumps(old))
    assert NodeState("demo", "a", Role.PRIMARY, None, 1) == state.current(
        cluster, cluster.node("a")
    )


def test_a_state_that_can_not_be_written_is_told_of_with_the_file(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.node("a")
    state.write(node, state.initial(cluster, node))

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OperatorError) as caught:
        state.write(node, NodeState("demo", "a", Role.PRIMARY, None, 2))
    assert f"{state_file(node)}: No space left on device" == caught.value.detail
    assert 1 == state.current(cluster, node).epoch


def test_a_state_of_a_later_epoch_is_not_replaced_by_a_writer_that_was_frozen(
    cluster: Cluster,
) -> None:
    node = cluster.node("a")
    later = NodeState(cluster.name, "a", Role.PRIMARY, None, epoch=7)
    state.write(node, later)
    with pytest.raises(OperatorError, match="epoch 6 is over") as refused:
        state.write(node, dataclasses.replace(later, epoch=6))
    assert refused.value.exit_code is ExitCode.REFUSED
    assert state.current(cluster, node) == later


def test_the_file_has_the_documented_form(cluster: Cluster) -> None:
    node = cluster.node("a")
    state.write(node, state.initial(cluster, node))
    assert GOOD == json.loads(state_file(node).read_text())


def test_a_node_that_never_ran_is_what_the_cluster_file_says(cluster: Cluster) -> None:
    assert NodeState("demo", "b", Role.SECONDARY, "a", 1) == state.current(
        cluster, cluster.node("b")
    )
    assert not state_file(cluster.node("b")).exists()


def test_the_state_file_outweighs_the_cluster_file(cluster: Cluster) -> None:
    promoted = NodeState("demo", "b", Role.PRIMARY, None, 2)
    state.write(cluster.node("b"), promoted)
    assert promoted == state.current(cluster, cluster.node("b"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is no JSON"),
        ('{"format": 1, "clus', "is no JSON"),
        ("[]", "its keys are not"),
        (json.dumps({"format": 1}), "its keys are not"),
        (json.dumps(GOOD | {"format": 0}), "its format is 0, this program knows 1 and 2"),
        (json.dumps(GOOD | {"forced": {"actor": "ann"}}), "forced is {'actor': 'ann'}"),
        (json.dumps(GOOD | {"forced": FORCED, "role": "secondary", "upstream": "b"}), "forced is "),
        (json.dumps(GOOD | {"role": "boss"}), "its role is 'boss'"),
        (json.dumps(GOOD | {"role": ["primary"]}), "its role is ['primary']"),
        (json.dumps(GOOD | {"epoch": 0}), "its epoch is 0"),
        (json.dumps(GOOD | {"epoch": True}), "its epoch is True"),
        (json.dumps(GOOD | {"epoch": "1"}), "its epoch is '1'"),
        (json.dumps(GOOD | {"cluster": None}), "cluster and node are not both texts"),
        (json.dumps(GOOD | {"upstream": "b"}), "upstream 'b' does not go with role 'primary'"),
        (
            json.dumps(GOOD | {"role": "secondary"}),
            "upstream None does not go with role 'secondary'",
        ),
        (json.dumps(GOOD | {"node": "b"}), "it belongs to node 'b'"),
        (json.dumps(GOOD | {"cluster": "other"}), "it belongs to cluster 'other', not 'demo'"),
        (
            json.dumps(GOOD | {"role": "relay", "upstream": "z"}),
            "its upstream 'z' is no node of this cluster",
        ),
    ],
)
def test_a_file_that_can_not_be_trusted_is_refused(
    cluster: Cluster, content: str, complaint: str
) -> None:
    node = cluster.node("a")
    state_file(node).write_text(content)
    with pytest.raises(OperatorError) as caught:
        state.current(cluster, node)
    assert ExitCode.REFUSED == caught.value.exit_code
    assert caught.value.detail.startswith(f"{state_file(node)}: ")
    assert complaint in caught.value.detail


def test_a_file_that_can_not_be_read_is_not_taken_for_a_node_that_never_ran(
    cluster: Cluster,
) -> None:
    """It would start in epoch 1, perhaps as the primary that it was once."""
    node = cluster.node("a")
    state_file(node).symlink_to(state_file(node))
    with pytest.raises(OperatorError, match="can't be used") as caught:
        state.current(cluster, node)
    assert ExitCode.REFUSED == caught.value.exit_code


def test_a_writer_killed_in_the_middle_leaves_the_old_file(cluster: Cluster) -> None:
    node = cluster.node("a")
    old = state.initial(cluster, node)
    state.write(node, old)
    writer = subprocess.run(
        [sys.executable, "-c", WRITER_KILLED_BEFORE_THE_RENAME, state_file(node)],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert -signal.SIGKILL == writer.returncode
    assert old == state.current(cluster, node)
    state.write(node, dataclasses.replace(old, epoch=2))
    assert 2 == state.current(cluster, node).epoch


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert ("old", [path]) == (path.read_text(), list(tmp_path.iterdir()))


def test_a_written_file_has_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    write_atomically(tmp_path / "secret", "x", 0o600)
    assert 0o600 == stat.S_IMODE((tmp_path / "secret").stat().st_mode)


def test_files_that_are_right_already_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    write_all({path: "text"})
    before = path.stat().st_ino
    write_all({path: "text"})
    assert before == path.stat().st_ino
    write_all({path: "other"})
    assert "other" == path.read_text()


def test_a_lost_upstream_is_refused_with_the_state(cluster: Cluster) -> None:
    node = cluster.node("a")
    values = GOOD | {"role": "secondary", "upstream": "z", "epoch": 7}
    state_file(node).write_text(json.dumps(values))
    with pytest.raises(state.LostUpstreamError) as refused:
        state.current(cluster, node)
    assert refused.value.state.epoch == 7
    assert "node start a --force --reason TEXT" in refused.value.hint
