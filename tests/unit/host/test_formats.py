"""The formats of the files that are written and read back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from indico_zodbrepl import __version__
from indico_zodbrepl.admin.access import accounts
from indico_zodbrepl.cluster import Cluster, formats, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import epochs, history, lifecycle, releases, state, statistics

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
READERS: dict[formats.Kind, Callable[[Cluster], object]] = {
    formats.STATE: lambda cluster: state.current(cluster, cluster.node("a")),
    formats.HISTORY: lambda cluster: history.known(
        cluster.node("a"), state.initial(cluster, cluster.node("a"))
    ),
    formats.EPOCH: lambda cluster: epochs.read(cluster, Layout(cluster).epoch_record),
    formats.STATISTICS: statistics.last,
    formats.CONVERSION: state.read_converting,
    formats.ACCOUNTS: lambda cluster: accounts.read(Layout(cluster).accounts),
}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(EXAMPLE, tmp_path)


def written(cluster: Cluster, kind: formats.Kind, number: int) -> Path:
    """Write a file of a format, as a later release may; return its path."""
    folder = cluster.node("a").data_directory if kind.in_nodes else Layout(cluster).var
    path = folder / kind.place.replace("*", "one")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({kind.key: number, "new": "meaning"}) + "\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("kind", formats.KINDS[:-1], ids=lambda kind: kind.place)
def test_up_refuses_a_file_of_a_newer_release_and_leaves_it(
    cluster: Cluster, kind: formats.Kind
) -> None:
    path = written(cluster, kind, kind.known + 1)
    before = path.read_bytes()
    with pytest.raises(OperatorError) as caught:
        lifecycle.up(cluster, Installation(EXAMPLE.parents[1]))
    assert caught.value.exit_code is ExitCode.NEWER_STATE
    assert str(path) in caught.value.detail
    assert f"release {__version__} knows formats up to {kind.known}" in caught.value.detail
    assert "upgrade --check" in caught.value.hint
    assert before == path.read_bytes()


@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.place)
def test_a_reader_refuses_a_file_of_a_newer_release(cluster: Cluster, kind: formats.Kind) -> None:
    written(cluster, kind, kind.known + 1)
    with pytest.raises(OperatorError) as caught:
        READERS[kind](cluster)
    assert caught.value.exit_code is ExitCode.NEWER_STATE


@pytest.mark.parametrize("kind", formats.KINDS, ids=lambda kind: kind.place)
def test_a_known_format_and_a_file_without_a_number_are_not_newer(
    cluster: Cluster, kind: formats.Kind
) -> None:
    path = written(cluster, kind, kind.known)
    assert formats.newer(cluster) == []
    path.write_text('{"text": "\\"format\\": 99"}')
    assert formats.newer(cluster) == []
    assert kind.number(path) == 1


def test_a_state_without_a_record_of_the_release_is_of_the_first_one(cluster: Cluster) -> None:
    assert releases.last(cluster) is None
    Layout(cluster).etc.mkdir(parents=True)
    Layout(cluster).supervisord_conf.touch()
    assert releases.last(cluster) == "0.1.0"
    releases.record(cluster)
    assert releases.last(cluster) == __version__
