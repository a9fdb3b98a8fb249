"""Which copy of the database is read, and what becomes of the program that reads it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from fake_python27 import installation, say

from indico_zodbrepl.cluster import Cluster, Role, load
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.cluster.model import NodeState
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import state, statistics
from indico_zodbrepl.host.statistics import Progress, Source

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
TELL = f"{say({'done': 5, 'total': 10, 'records': 3})} >&2"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "cluster.conf").write_text(EXAMPLE.read_text())
    return load(tmp_path / "etc" / "cluster.conf", tmp_path)


def give_data(cluster: Cluster, name: str) -> Path:
    path = data_fs(cluster.node(name))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"FS21")
    return path


def give_conf(cluster: Cluster, path: Path) -> None:
    Layout(cluster).etc.mkdir(parents=True, exist_ok=True)
    path.write_text("")


def test_the_data_file_of_the_present_primary_is_read_itself(cluster: Cluster) -> None:
    files = {name: give_data(cluster, name) for name in ("a", "b")}
    assert Source("file", files["a"], "a") == statistics.source(cluster, None)
    assert Source("file", files["b"], "b") == statistics.source(cluster, "b")
    state.write(cluster.node("b"), NodeState(cluster.name, "b", Role.PRIMARY, None, epoch=2))
    assert "b" == statistics.source(cluster, None).node


def test_what_has_no_data_file_here_is_read_as_clients_read_it(cluster: Cluster) -> None:
    layout = Layout(cluster)
    give_conf(cluster, layout.zodb_conf)
    give_conf(cluster, layout.node_zodb_conf(cluster.node("b")))
    assert Source("storage", layout.zodb_conf, None) == statistics.source(cluster, None)
    assert Source("storage", layout.node_zodb_conf(cluster.node("b")), "b") == (
        statistics.source(cluster, "b")
    )


def test_before_the_first_up_there_is_nothing_to_read(cluster: Cluster) -> None:
    with pytest.raises(OperatorError) as caught:
        statistics.source(cluster, None)
    assert ExitCode.NOT_RUNNING is caught.value.exit_code
    assert caught.value.hint.endswith("up")


def test_a_node_that_does_not_exist_is_an_error_of_the_call(cluster: Cluster) -> None:
    with pytest.raises(OperatorError) as caught:
        statistics.source(cluster, "nobody")
    assert ExitCode.BAD_CONFIG is caught.value.exit_code


def test_progress_and_answer_are_passed_on(tmp_path: Path) -> None:
    told: list[Progress] = []
    answer = statistics.statistics(
        installation(tmp_path, f"{TELL}; {say({'objects': 4})}"),
        Source("file", Path("Data.fs"), None),
        3,
        on_progress=told.append,
    )
    assert ({"objects": 4}, [Progress(5, 10, 3)]) == (answer, told)


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [(1, ExitCode.FAILED), (4, ExitCode.REFUSED), (6, ExitCode.NOT_RUNNING)],
)
def test_the_programs_last_words_are_the_detail(
    tmp_path: Path, status: int, exit_code: ExitCode
) -> None:
    with pytest.raises(OperatorError) as caught:
        statistics.statistics(
            installation(tmp_path, f"{TELL}; echo 'it is gone' >&2; exit {status}"),
            Source("storage", Path("zodb.conf"), None),
            3,
        )
    assert ("it is gone", exit_code) == (caught.value.detail, caught.value.exit_code)


def test_a_storage_that_goes_silent_is_given_up_and_its_program_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "SILENCE_SECONDS", 0.5)
    noted = tmp_path / "pid"
    with pytest.raises(OperatorError) as caught:
        statistics.statistics(
            installation(tmp_path / "home", f"{TELL}; echo $$ > {noted}; exec sleep 600"),
            Source("storage", Path("zodb.conf"), None),
            3,
        )
    assert ExitCode.TIMED_OUT is caught.value.exit_code
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


def test_the_real_program_reads_a_data_file(tmp_path: Path) -> None:
    real = Installation(home_from_environment())
    path = tmp_path / "Data.fs"
    subprocess.run(
        [real.python27, "-c", "import sys, ZODB; ZODB.DB(sys.argv[1]).close()", path],
        check=True,
    )
    found = statistics.statistics(real, Source("file", path, None), 1)
    assert (1, 0, 1) == (found["objects"], found["revisions"], found["transactions"])
    assert ["persistent.mapping.PersistentMapping"] == [each["name"] for each in found["classes"]]
    assert ["0000000000000000"] == [each["oid"] for each in found["largest"]]
