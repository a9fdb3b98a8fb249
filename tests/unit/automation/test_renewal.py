"""How a leader that gives its role away makes sure that its server takes no commits."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any, cast

import pytest

from indico_zodbrepl.automation import renewal
from indico_zodbrepl.automation.renewal import Reign
from indico_zodbrepl.automation.timing import now
from indico_zodbrepl.cluster import load
from indico_zodbrepl.etcd.keys import Leader, Store, Stored
from indico_zodbrepl.host.server_control import ServerRefusedError

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
KEY = Stored(cast(Any, None), Leader("b", "h2", 4, 17), cast(Any, None))


@pytest.mark.parametrize("kill", [False, True])
def test_a_server_that_may_yet_obey_a_promotion_is_killed(
    kill: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses an order about its lease while it is a secondary; that alone proves too little."""
    killed: list[str] = []

    def refuse(*_: object) -> None:
        raise ServerRefusedError("node b is no primary")

    def kill_it() -> bool:
        killed.append("b")
        return True

    process = types.SimpleNamespace(
        pid=7,
        gone=False,
        stopped=False,
        kill=kill_it,
        close=lambda: None,
    )
    monkeypatch.setattr(renewal, "ServerProcess", lambda *_: process)
    monkeypatch.setattr(
        renewal, "control_of", lambda *_: types.SimpleNamespace(lease=refuse, status=refuse)
    )
    reign = Reign(
        load(EXAMPLE, tmp_path),
        cast(Store, types.SimpleNamespace(swap=lambda *_: None, keys=None)),
        KEY,
        now(),
        leads=False,
        is_paused=lambda: False,
        vouch=lambda _reign: None,
        on_end=lambda: None,
    )
    reign.give_up("node b could not be promoted", kill=kill)
    reign.start()
    reign._thread.join(10)
    assert reign.over
    assert killed == (["b"] if kill else [])
