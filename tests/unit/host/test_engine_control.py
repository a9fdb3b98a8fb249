"""Orders to a database server and its guard."""

from __future__ import annotations

import errno
import os
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
