"""Whether a point of no return that was begun has changed anything: looked at, not remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import epochs, state
from indico_zodbrepl.host.replacing import part
from indico_zodbrepl.operations.clone import Swap
from indico_zodbrepl.operations.model import Context, Plan, Step
from indico_zodbrepl.operations.rejoin_steps import Cut
from indico_zodbrepl.operations.roles import Promote
from indico_zodbrepl.probing import times

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
    return Context(
        cluster=cluster,
        installation=Installation(cluster.var_directory),
        began=0.0,
        plan=plan,
        results={},
        say=lambda _text: None,
    )


def step(kind: type[Step], **arguments: object) -> Step:
    return kind("b", arguments, title="", seconds=10.0, after_no_return=True)  # type: ignore[arg-type]


def test_a_promotion_has_begun_as_soon_as_one_record_is_raised(cluster: Cluster) -> None:
    promotion = step(Promote, epoch=2, reason="")
    assert promotion.is_untouched(context(cluster))
    epochs.raise_everywhere(cluster, 1, "a", "first")
    assert promotion.is_untouched(context(cluster))
    one = Layout(cluster).instance_epoch_record(cluster.indico[0])
    epochs.raise_record(cluster, one, epochs.EpochRecord(cluster.name, 2, "b", times.now(), ""))
    assert not promotion.is_untouched(context(cluster))


def test_a_promotion_has_begun_when_the_node_is_the_primary_by_its_state(cluster: Cluster) -> None:
    state.write(cluster.node("b"), NodeState(cluster.name, "b", Role.PRIMARY, None, 2))
    assert not step(Promote, epoch=2, reason="").is_untouched(context(cluster))


def test_what_can_not_be_read_does_not_count_as_untouched(cluster: Cluster) -> None:
    Layout(cluster).epoch_record.write_text("{")
    with pytest.raises(OperatorError):
        step(Promote, epoch=2, reason="").is_untouched(context(cluster))


def test_a_cut_has_begun_once_what_is_cut_is_noted(cluster: Cluster, tmp_path: Path) -> None:
    cut = step(Cut, folder=str(tmp_path))
    assert cut.is_untouched(context(cluster))
    (tmp_path / "cut.bin").touch()
    assert cut.is_untouched(context(cluster))
    (tmp_path / "cut.json").touch()
    assert not cut.is_untouched(context(cluster))


def test_a_swap_has_begun_once_there_is_a_folder_for_the_old_data(
    cluster: Cluster, tmp_path: Path
) -> None:
    node, swap = cluster.node("b"), step(Swap, aside=str(tmp_path / "aside"))
    assert not swap.is_untouched(context(cluster)), "there is no copy"
    part(node).parent.mkdir()
    part(node).touch()
    data_fs(node).touch()
    assert swap.is_untouched(context(cluster))
    (tmp_path / "aside").mkdir()
    assert not swap.is_untouched(context(cluster))
