"""Which measurements are made inside Indico, and what becomes of those that fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import answer, cluster_in

from indico_zodbrepl.bench import results, runner, suite
from indico_zodbrepl.bench.results import Run
from indico_zodbrepl.bench.sites import pinning
from indico_zodbrepl.bench.sites.pool import LiveSite, Sites
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Settings
from indico_zodbrepl.bench.suites import in_app
from indico_zodbrepl.bench.suites.in_app import CACHES, READ, SUITE, TESTS, WRITE, Endpoint
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError

Answers = Callable[..., list[tuple[str, dict[str, str], float]]]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """One that lets us ask its Indico."""
    made = cluster_in(tmp_path)
    Layout(made).secrets.mkdir(parents=True)
    Layout(made).bench_secret.write_text("a secret")
    return made


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Has Indico answer, or raise what it is given, in turn; what it was asked is in the list."""
    asked: list[tuple[str, dict[str, str], float]] = []

    def give(*outcomes: BaseException | None) -> list[tuple[str, dict[str, str], float]]:
        left = list(outcomes)

        def measure(
            _self: Endpoint, test: str, fields: dict[str, str], seconds: float
        ) -> dict[str, Any]:
            asked.append((test, fields, seconds))
            outcome = left.pop(0) if left else None
            if outcome is not None:
                raise outcome
            return answer()

        monkeypatch.setattr(Endpoint, "measure", measure)
        return asked

    return give


def settings(rounds: int = 2, seconds: float | None = None, **options: Any) -> Settings:
    return suite.settings_of(SUITE, rounds=rounds, seconds=seconds, options=options)


def make(
    cluster: Cluster, asked: Settings, told: Callable[[runner.Told], None] = lambda _: None
) -> Run:
    installation = Installation(cluster.source.parent)
    site = LiveSite(cluster, installation)
    with Sites(installation, cluster.source.parent, lambda _: None) as sites:
        sites.give(site)
        return runner.make(
            SUITE,
            [site.storage],
            in_app.for_running(cluster, asked),
            sites,
            cluster=cluster,
            folder=results.new_folder(cluster, SUITE.name),
            told=told,
        )


def test_each_test_is_made_in_each_state_and_only_writing_modifies() -> None:
    cases = in_app.cases(TESTS, "room")
    assert len(TESTS) * len(CACHES) == len(cases) == len(set(map(str, cases)))
    assert {case.test for case in cases if "modify" in case.parameters} == set(WRITE)


def test_a_quick_run_is_one_short_round_unless_told_otherwise() -> None:
    quick = suite.settings_of(SUITE, quick=True, options={"modify": "title"})
    assert (1, "title", 5) == (quick.rounds, quick.options["modify"], quick.options["repetitions"])
    assert quick.seconds < 1
    assert suite.settings_of(SUITE, quick=True, seconds=0.1, rounds=4) == Settings(
        4, 0.1, True, {**quick.options, "modify": "description"}
    )


def test_indico_is_asked_for_what_was_wanted(cluster: Cluster, answers: Answers) -> None:
    asked = answers()
    make(cluster, settings(1, 2.5, test=(WRITE[0],), repetitions=7, modify="room"))
    assert [
        (WRITE[0], {"seconds": "2.5", "repetitions": "7", "modify": "room", "caches": caches}, 2.5)
        for caches in CACHES
    ] == asked


def test_a_test_that_failed_is_kept_with_its_error_and_the_others_go_on(
    cluster: Cluster, answers: Answers
) -> None:
    answers(None, OperatorError("no", "the storage is away"))
    told: list[str] = []
    run = make(cluster, settings(test=READ[:1]), lambda each: told.append(each.measurement.error))
    assert ["", "the storage is away", "", "", "", ""] == told
    assert run.is_complete
    assert ["the storage is away"] == [each.error for each in run.failed]
    assert {"running": cluster.source.read_text()} == run.configs
    assert run.versions["ZODB"] == "5.8.1"


def test_each_further_round_begins_with_new_processes(
    cluster: Cluster, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes of the same Indico differ in speed, also where no storage is used."""
    asked, renewed = answers(), list[int]()
    monkeypatch.setattr(LiveSite, "renew_indico", lambda _: renewed.append(len(asked)))
    make(cluster, settings(3, test=READ[:1]))
    assert renewed == [len(CACHES), 2 * len(CACHES)]


@pytest.mark.parametrize(
    "stop",
    [
        KeyboardInterrupt(),
        OperatorError("busy", exit_code=ExitCode.REFUSED),
        OperatorError("gone", exit_code=ExitCode.NOT_RUNNING),
    ],
)
def test_what_was_measured_before_an_end_is_kept(
    cluster: Cluster, answers: Answers, stop: BaseException
) -> None:
    answers(None, None, stop)
    with pytest.raises((KeyboardInterrupt, OperatorError)) as raised:
        make(cluster, settings(test=READ[:1]))
    if isinstance(stop, OperatorError):
        assert isinstance(raised.value, OperatorError)
        assert (stop.notice, stop.exit_code) == (raised.value.notice, raised.value.exit_code)
    (found,) = results.read_all(cluster)
    assert len(found.measurements) == 2
    assert found.planned == 6
    assert found.ended is not None
    assert not found.is_complete


def test_figures_that_indico_does_not_have_are_missing() -> None:
    found = in_app.metrics_of({**answer(client_cache=None), "rate": None})
    assert not {"rate", "hits", "misses"} & set(found)
    assert (2, 0.5, 50) == (found["loads"], found["stores"], found["stored_bytes"])
    assert (1, 0) == (found["conflicts"], found["given_up"])
    assert "loads" not in in_app.metrics_of(answer(operations=0))
    assert set(in_app.metrics_of(answer())) == {metric.name for metric in SUITE.metrics}


def test_an_instance_is_found_by_its_name_or_is_the_first(cluster: Cluster) -> None:
    assert cluster.indico[0] == in_app.instance_of(cluster, "")
    last = cluster.indico[-1]
    assert last == in_app.instance_of(cluster, last.name)
    with pytest.raises(OperatorError, match="no Indico instance nobody"):
        in_app.instance_of(cluster, "nobody")


def test_nobody_is_asked_without_a_secret(cluster: Cluster) -> None:
    Layout(cluster).bench_secret.unlink()
    with pytest.raises(OperatorError) as raised:
        in_app.for_running(cluster, settings())
    assert raised.value.exit_code == ExitCode.REFUSED


def test_only_the_states_of_caches_that_were_named_are_measured() -> None:
    asked = settings(1, 1.0, test=(WRITE[0],), caches=("hot", "cold"))
    found = SUITE.cases(asked, STORAGES["zeo"])
    assert ["cold", "hot"] == [case.parameters["caches"] for case in found]


def test_pinned_cases_say_so_and_are_no_parameter_of_indico(
    cluster: Cluster, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answers()
    pinned: list[object] = []
    monkeypatch.setattr(pinning, "pin", pinned.append)
    monkeypatch.setattr(pinning, "release", lambda _site: None)
    wanted = settings(1, 1.0, test=(WRITE[0],), caches=("hot",), pinned="yes")
    [case] = SUITE.cases(wanted, STORAGES["zeo"])
    assert "yes" == case.parameters["pinned"]
    site = LiveSite(cluster, Installation(cluster.source.parent))
    SUITE.measure(case, site, wanted)
    assert [site] == pinned
    assert "pinned" not in asked[0][1]


def test_a_cluster_that_serves_people_is_not_pinned(cluster: Cluster) -> None:
    with pytest.raises(OperatorError) as refused:
        in_app.for_running(cluster, settings(1, 1.0, pinned="yes"))
    assert ExitCode.BAD_CONFIG == refused.value.exit_code
