"""Whether a point of no return that was begun has changed anything: looked at, not remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.failover.actions import Context
from indico_zodbrepl.failover.rejoin_actions import CUT
from indico_zodbrepl.failover.seed_actions import SWAP
from indico_zodbrepl.failover.seed_facts import part
from indico_zodbrepl.failover.steps import Plan, Step
from indico_zodbrepl.failover.taking_over import PROMOTE
from indico_zodbrepl.node import epochs, state

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text(EXAMPLE.read_text())
    made = load(path, tmp_path)
    for node in made.nodes:
        node.data_directory.mkdir(parents=True)
    return made


def context(cluster: Cluster) -> Context:
    plan = Plan("failover", "b", "a", "", 2, (), None, ())
    return Context(cluster=cluster, installation=Installation(cluster.var_directory), began=0.0,
                   plan=plan, results={}, say=lambda _text: None)


def step(**arguments: object) -> Step:
    return Step("any", "b", arguments, "", "", "", "", 10.0, True)  # type: ignore[arg-type]


def test_a_promotion_has_begun_as_soon_as_one_record_is_raised(cluster: Cluster) -> None:
    promotion = step(epoch=2, reason="")
    assert PROMOTE.is_untouched(context(cluster), promotion)
    epochs.raise_everywhere(cluster, 1, "a", "first")
    assert PROMOTE.is_untouched(context(cluster), promotion)
    one = Layout(cluster).instance_epoch_record(cluster.indico[0])
    epochs.raise_record(cluster, one, epochs.EpochRecord(cluster.name, 2, "b", epochs.now(), ""))
    assert not PROMOTE.is_untouched(context(cluster), promotion)


def test_a_promotion_has_begun_when_the_node_is_the_primary_by_its_state(cluster: Cluster) -> None:
    state.write(cluster.node("b"), NodeState(cluster.name, "b", Role.PRIMARY, None, 2))
    assert not PROMOTE.is_untouched(context(cluster), step(epoch=2, reason=""))


def test_what_can_not_be_read_does_not_count_as_untouched(cluster: Cluster) -> None:
    Layout(cluster).epoch_record.write_text("{")
    with pytest.raises(OperatorError):
        PROMOTE.is_untouched(context(cluster), step(epoch=2, reason=""))


def test_a_cut_has_begun_once_what_is_cut_is_noted(cluster: Cluster, tmp_path: Path) -> None:
    cut = step(folder=str(tmp_path))
    assert CUT.is_untouched(context(cluster), cut)
    (tmp_path / "cut.bin").touch()
    assert CUT.is_untouched(context(cluster), cut)
    (tmp_path / "cut.json").touch()
    assert not CUT.is_untouched(context(cluster), cut)


def test_a_swap_has_begun_once_there_is_a_folder_for_the_old_data(
        cluster: Cluster, tmp_path: Path) -> None:
    node, swap = cluster.node("b"), step(aside=str(tmp_path / "aside"))
    assert not SWAP.is_untouched(context(cluster), swap), "there is no copy"
    part(node).parent.mkdir()
    part(node).touch()
    data_fs(node).touch()
    assert SWAP.is_untouched(context(cluster), swap)
    (tmp_path / "aside").mkdir()
    assert not SWAP.is_untouched(context(cluster), swap)
