"""The last statistics are kept, read again, and told as unusable when they are something else."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "operations"))

from kept import FOUND, KEPT

from indico_zodbrepl.cli import App, data
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import statistics
from indico_zodbrepl.host import statistics as kept_statistics

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "cluster.conf").write_text(EXAMPLE.read_text())
    return load(tmp_path / "etc" / "cluster.conf", tmp_path)


def test_without_any_there_are_none(cluster: Cluster) -> None:
    assert kept_statistics.last(cluster) is None


def test_the_last_ones_are_kept(cluster: Cluster) -> None:
    kept_statistics.keep(cluster, KEPT)
    assert KEPT == kept_statistics.last(cluster)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff", b'{"format": 0}', b'{"format": 1}']
)
def test_a_file_of_something_else_is_reported_with_what_to_do(
    cluster: Cluster, content: bytes
) -> None:
    Layout(cluster).var.mkdir()
    Layout(cluster).statistics.write_bytes(content)
    with pytest.raises(OperatorError, match="can't be used") as error:
        kept_statistics.last(cluster)
    assert error.value.hint.endswith(" stats")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("at",), "now"),
        (("where", "node"), 7),
        (("found", "bytes"), None),
        (("found", "history"), "lost"),
        (("found", "classes", 0, "objects"), "3"),
        (("found", "largest", 0, "what"), []),
        (("found", "largest", 0), "x"),
        (("found", "modules"), 5),
    ],
)
def test_a_value_that_nobody_could_show_is_reported(
    cluster: Cluster, path: tuple[Any, ...], value: object
) -> None:
    kept_statistics.keep(cluster, KEPT)
    file = Layout(cluster).statistics
    values = json.loads(file.read_text())
    part = values
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    file.write_text(json.dumps(values))
    with pytest.raises(OperatorError, match="can't be used"):
        kept_statistics.last(cluster)


def test_a_place_that_can_not_be_written_is_reported(cluster: Cluster) -> None:
    Layout(cluster).var.write_text("a file")
    with pytest.raises(OperatorError, match="can't be kept"):
        kept_statistics.keep(cluster, KEPT)


@pytest.mark.parametrize("writable", [True, False])
def test_the_command_keeps_what_it_found_and_prints_it_in_any_case(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, writable: bool
) -> None:
    monkeypatch.setattr(statistics, "source", lambda *_: KEPT.where)
    monkeypatch.setattr(statistics, "statistics", lambda *_, **__: copy.deepcopy(FOUND))
    monkeypatch.setattr(App, "cluster", cluster)
    if not writable:
        Layout(cluster).var.write_text("a file")
    app = App(tmp_path / "etc/cluster.conf", Installation(tmp_path))
    done = CliRunner().invoke(data.stats, ["--json"], obj=app)
    assert 0 == done.exit_code, done.output
    assert FOUND["classes"] == json.loads(done.stdout)["classes"]
    if writable:
        last = kept_statistics.last(cluster)
        assert last is not None
        assert (FOUND, KEPT.where) == (last.found, last.where)
    else:
        assert "NOTICE: the statistics can't be kept" in done.stderr
