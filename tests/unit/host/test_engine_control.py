"""Orders to a database server and its guard."""

from __future__ import annotations

import errno
import json
import os
import time
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace

import pytest

from indico_zodbrepl.cluster import load
from indico_zodbrepl.host import engine_control
from indico_zodbrepl.host.engine_control import DatabaseControl
from indico_zodbrepl.host.server_control import ServerRefusedError

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster-relstorage-mariadb.conf"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_follower_that_could_not_follow_again_by_itself_does_not_leave_its_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """An election meets a full disk as an answer, not as an error that ends the program."""
    source = tmp_path / "cluster.conf"
    source.write_text(EXAMPLE.read_text())
    cluster = load(source, tmp_path)

    def write(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(engine_control, "write_atomically", write)
    monkeypatch.setattr(
        DatabaseControl, "status", lambda *_: SimpleNamespace(lease=None, last_tid=0)
    )
    with pytest.raises(ServerRefusedError, match="node b can't detach") as refused:
        DatabaseControl(cluster, cluster.node("b")).detach(7, 10.0, 1.0)
    assert os.strerror(number) in refused.value.detail


@pytest.mark.parametrize("again", [True, False])
def test_a_follower_that_is_detached_again_is_not_attached_because_the_first_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    """It has just told another election that it receives no more."""
    cluster = load(EXAMPLE, tmp_path)
    node = cluster.node("b")
    node.data_directory.mkdir(parents=True)
    note = node.data_directory / "detached.json"
    note.write_text('{"until": 0}')
    attached: list[str] = []
    native = SimpleNamespace(attach=lambda _cluster, it, _deadline: attached.append(it.node))
    monkeypatch.setattr(engine_control, "native_of", lambda _cluster: native)
    with futures.ThreadPoolExecutor(1) as agent:
        with engine_control._changing_link(cluster, node, time.monotonic() + 1):
            looks = agent.submit(engine_control.attach_when_due, cluster, node)
            with pytest.raises(futures.TimeoutError):
                looks.result(0.3)
            if again:
                until = time.clock_gettime(time.CLOCK_BOOTTIME) + 60
                note.write_text(json.dumps({"until": until}))
        assert looks.result(10) is not again
    assert (attached, note.exists()) == (([], True) if again else (["b"], False))


def test_what_a_node_follows_is_changed_by_one_process_at_a_time(tmp_path: Path) -> None:
    cluster = load(EXAMPLE, tmp_path)
    node = cluster.node("b")
    with (
        engine_control._changing_link(cluster, node, time.monotonic() + 1),
        pytest.raises(ServerRefusedError, match="what node b follows"),
        engine_control._changing_link(cluster, node, time.monotonic()),
    ):
        pass
