"""The suite measures highest or fixed rates for each number of workers, and tells all trials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages_server import CALL_SECONDS, MISSING, PagesServer

from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, STORAGES
from indico_zodbrepl.bench.suite import Case, Settings
from indico_zodbrepl.bench.suites.http import SUITE
from indico_zodbrepl.bench.suites.http_visitors import VISIT_FILE
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError

CLUSTER = """\
name test
backend zeo
var-directory {folder}/var
<node a>
  host 127.0.0.1
  role primary
  data-directory {folder}/data
  storage-port 1
</node>
<indico i1>
  host 127.0.0.1
  port {port}
</indico>
<admin>
  host 127.0.0.1
  port 2
</admin>
"""


class WithoutSupervisor(Site):
    """A site none of whose programs run."""

    def pids(self) -> dict[str, int]:
        return {}


def settings(**options: Any) -> Settings:
    values = {each.name: each.default for each in SUITE.options}
    return Settings(
        1, 0.5, False, values | {name.replace("_", "-"): value for name, value in options.items()}
    )


def visit(folder: Path, paths: list[str]) -> None:
    """Let visitors, of whom one is logged in, request these paths or change two conferences."""
    session = {"cookie": "indico_session=1", "token": "secret"}
    (folder / VISIT_FILE).write_text(
        json.dumps({"paths": paths, "sessions": [session], "conferences": ["0", "1"]})
    )


@pytest.fixture
def server() -> Iterator[PagesServer]:
    with PagesServer() as running:
        yield running


@pytest.fixture
def site(tmp_path: Path, server: PagesServer) -> Site:
    """A site whose Indico is the server."""
    path = tmp_path / "cluster.conf"
    path.write_text(CLUSTER.format(folder=tmp_path, port=server.base.rpartition(":")[2]))
    made = WithoutSupervisor(STORAGES["zeo"], tmp_path, Installation(tmp_path), 1)
    made.cluster = load(path, tmp_path)
    visit(tmp_path, ["/", "/event/1/"])
    return made


def test_each_number_of_workers_is_a_case() -> None:
    assert [Case("highest rate", {"workers": 1}), Case("highest rate", {"workers": 2})] == (
        SUITE.cases(settings(), STORAGES["zeo"])
    )


def test_a_storage_for_one_process_has_one_worker() -> None:
    assert [Case("highest rate", {"workers": 1})] == SUITE.cases(
        settings(), STORAGES["filestorage"]
    )


def test_a_given_rate_is_measured_instead_of_searching() -> None:
    assert [Case("fixed rate", {"workers": 1, "rate": 20.0})] == SUITE.cases(
        settings(rate=20.0, indico=1), STORAGES["zeo"]
    )


def test_cases_say_who_the_visitors_are_and_what_they_do() -> None:
    def parameters(**options: Any) -> list[object]:
        return [each.parameters for each in SUITE.cases(settings(**options), STORAGES["zrs"])]

    assert [{"workers": 1}] == parameters(indico=1)
    assert [{"workers": 1, "visitors": "logged in"}] == parameters(indico=1, logged_in="yes")
    assert [{"workers": 1, "writes": 10}] == parameters(indico=1, writes=10)
    assert [{"workers": 1, "content": "static"}] == parameters(indico=1, content="static")
    assert [{"workers": 1, "tls": "yes"}] == parameters(indico=1, tls="yes")


def test_a_database_in_memory_can_not_be_measured() -> None:
    assert SUITE.unfit(STORAGES[IN_MEMORY])
    assert [] == [name for name in SUITE.storages if SUITE.unfit(STORAGES[name])]


def test_a_search_tells_the_highest_rate_and_all_trials(site: Site) -> None:
    made = SUITE.measure(
        Case("highest rate", {"workers": 1}), site, settings(trials=3, limit_ms=10_000.0)
    )
    assert 20 == made.metrics["rate"]
    assert {"mean_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms"} < set(made.metrics)
    assert set(made.metrics) <= {each.name for each in SUITE.metrics}
    details = made.details
    assert [10, 20, 20] == [each["rate"] for each in details["trials"]]
    assert [5, 10, 10] == [each["scheduled"] for each in details["trials"]]
    assert [10, 20, 20] == [each["rate"] for each in details["curve"]]
    assert (True, None, "nothing") == (
        details["confirmed"],
        details["failed_from"],
        details["saturated"],
    )
    assert json.dumps(details)


def test_requests_go_to_indico_below_its_base_url(site: Site, server: PagesServer) -> None:
    SUITE.measure(Case("fixed rate", {"workers": 1, "rate": 10.0}), site, settings())
    assert {"/indico/", "/indico/event/1/"} == set(server.asked)


def test_a_fixed_rate_tells_what_was_achieved(site: Site) -> None:
    made = SUITE.measure(
        Case("fixed rate", {"workers": 1, "rate": 40.0}), site, settings(limit_ms=10_000.0)
    )
    (trial,) = made.details["trials"]
    assert (20, 20) == (trial["scheduled"], trial["answered"])
    assert 0 < made.metrics["rate"] <= 40
    assert made.details["held"]


def test_changes_have_latencies_of_their_own(site: Site, server: PagesServer) -> None:
    made = SUITE.measure(
        Case("fixed rate", {"workers": 1, "rate": 40.0, "writes": 10}),
        site,
        settings(limit_ms=10_000.0, writes=10),
    )
    assert 2 == len(server.calls)
    assert 0 < made.metrics["saving_p50_ms"] <= made.metrics["saving_p99_ms"]
    assert set(made.metrics) <= {each.name for each in SUITE.metrics}


def test_the_time_in_calls_of_the_storage_is_reported(site: Site) -> None:
    made = SUITE.measure(
        Case("fixed rate", {"workers": 1, "rate": 40.0}), site, settings(limit_ms=10_000.0)
    )
    assert pytest.approx(1000 * CALL_SECONDS / 20) == made.metrics["storage_call_ms"]
    (trial,) = made.details["trials"]
    assert 0 < trial["shares"]["calls"]["indico-i1"] <= CALL_SECONDS / 0.4


def test_an_indico_that_does_not_tell_it_can_not_be_measured(
    site: Site, server: PagesServer
) -> None:
    server.has_health = False
    with pytest.raises(OperatorError, match="does not tell how long it waited") as raised:
        SUITE.measure(Case("fixed rate", {"workers": 1, "rate": 10.0}), site, settings())
    assert ExitCode.NOT_RUNNING == raised.value.exit_code


def test_a_rate_that_fails_has_no_latency_but_its_trial_says_why(
    site: Site, tmp_path: Path
) -> None:
    visit(tmp_path, [MISSING])
    made = SUITE.measure(Case("fixed rate", {"workers": 1, "rate": 10.0}), site, settings())
    assert {"rate": 0.0} == made.metrics
    assert "failed: 5 HTTP status 404" == made.details["trials"][0]["broken"]
    with pytest.raises(OperatorError, match="no rate held"):
        SUITE.measure(Case("highest rate", {"workers": 1}), site, settings(trials=2))
