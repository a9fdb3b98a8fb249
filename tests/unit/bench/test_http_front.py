"""nginx speaks TLS in front of the workers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pages_server import PagesServer, two_servers

from indico_zodbrepl.bench.suites import http_front
from indico_zodbrepl.bench.suites.http_generator import UNIFORM, Job, load
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.errors import ExitCode, OperatorError


def instance(server: PagesServer) -> IndicoInstance:
    return IndicoInstance("i1", "127.0.0.1", int(server.base.rpartition(":")[2]))


@pytest.mark.skipif(
    http_front.find() is None, reason=f"nginx is missing: apt-get install {http_front.PACKAGE}"
)
def test_workers_get_the_requests_of_visitors_who_speak_tls_in_turn(tmp_path: Path) -> None:
    with two_servers() as servers, http_front.front(tmp_path, [*map(instance, servers)]) as base:
        assert base.startswith("https://127.0.0.1:")
        found = asyncio.run(load(Job([base], ["/page"], 50, 0.2, UNIFORM)))
        assert 10 == len(found.latencies)
        assert [["/indico/page"] * 5] * 2 == [each.asked for each in servers]


def test_without_nginx_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_front, "FOLDERS", str(tmp_path))
    with (
        pytest.raises(OperatorError, match="nginx is not installed") as raised,
        http_front.front(tmp_path, []),
    ):
        pass
    assert ExitCode.NOT_INSTALLED == raised.value.exit_code
    assert "nginx-light" in raised.value.hint
