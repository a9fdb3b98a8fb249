"""The card of a planned failover: loss, evidence, successor and confirmation on one screen."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chromium
import looks
import planning
import pytest
import shots
import situations
from bs4 import BeautifulSoup, Tag
from flask.testing import FlaskClient
from playwright.sync_api import expect
from situations import ONE_SECOND, PRIMARY_KILLED, TID, server

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.host.datafs_answers import Relation
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations import evidence
from indico_zodbrepl.operations.evidence import Process, Report, Sight
from indico_zodbrepl.operations.exports import AtStake
from indico_zodbrepl.operations.failover import plan_failover
from indico_zodbrepl.operations.model import Finding, Plan, Verdict

ClientFor = Callable[[FlaskClient], FlaskClient]
Serve = Callable[[Cluster, Callable[[], Snapshot]], FlaskClient]
AT = "/operations/failover?node=b"
NAMES = tuple(f'Conference {number} "Meeting {number}"' for number in range(12))
DEAD: dict[str, Any] = {**PRIMARY_KILLED, "processes": {"a": Process.NONE}}
LOSES = {"compared": {"a": planning.compared(Relation.AHEAD, private=3)}}
ESTIMATED = {"compared": {"a": "No such file"}}


def star(**more: Any) -> dict[str, Any]:
    """Node a is dead; b and c followed it."""
    third = server("b", node="c", connected=False, **more.pop("c", {}))
    return {
        **DEAD,
        "servers": {**DEAD["servers"], "c": dataclasses.replace(third, **more.pop("answer", {}))},
        "comparisons": {"b": None, "c": None},
        **more,
    }


@pytest.fixture
def client_of_plan(
    page_of: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., FlaskClient]:
    """A function: an operator's client whose plans are made of a situation."""

    def make(of: Cluster | None = None, target: str = "b", **changes: Any) -> FlaskClient:
        cluster = dataclasses.replace(of or situations.cluster(), var_directory=tmp_path)
        found = planning.situation(cluster, **changes)
        made = plan_failover(cluster, found, target, "", planning.COMMANDS(cluster))
        assert isinstance(made, Plan), made
        monkeypatch.setattr(surveys, "prepare", lambda *_arguments: made)
        stake = AtStake(NAMES, "a-2-20261121T101010Z") if made.loss else AtStake()
        monkeypatch.setattr(surveys, "at_stake", lambda *_arguments: stake)
        return page_of(cluster, lambda: found.snapshot)

    return make


def part(client: FlaskClient, name: str, path: str = AT) -> str:
    """The text of a region of the page."""
    return " ".join(region(client, name, path).text.split())


def region(client: FlaskClient, name: str, path: str = AT) -> Tag:
    found = BeautifulSoup(client.get(path).text, "html.parser")
    made = found.select_one(f"section[aria-labelledby={name}-title]")
    assert made is not None, found.text
    return made


def test_an_exact_loss_is_shown_with_number_seconds_and_source(
    client_of_plan: Callable[..., FlaskClient],
) -> None:
    lost = part(client_of_plan(**DEAD, **LOSES), "loss")
    assert lost.startswith("Data loss 3 transactions Exact: the data files were compared.")
    assert "Committed within 1.0 s." in lost
    assert "Estimate" not in lost
    assert NAMES[0] in lost
    assert f"and {len(NAMES) - 2} more" in lost


def test_an_estimated_loss_says_that_it_is_an_estimate(
    client_of_plan: Callable[..., FlaskClient],
) -> None:
    lost = part(client_of_plan(**DEAD, **ESTIMATED), "loss")
    assert lost.startswith("Data loss Unknown number of transactions Estimate:")
    assert "Exact" not in lost


@pytest.mark.parametrize("loss", [LOSES, ESTIMATED])
@pytest.mark.parametrize(
    ("state", "said"), [("FATAL", "Suggested; may lose data."), ("STOPPED", "May lose data.")]
)
def test_a_failover_that_may_lose_data_is_red_and_never_called_safe(
    client_of_plan: Callable[..., FlaskClient], loss: dict[str, Any], state: str, said: str
) -> None:
    given_up = {**DEAD, "programs": {"node-a": situations.program("node-a", state)}}
    page = BeautifulSoup(client_of_plan(**given_up, **loss).get(AT).text, "html.parser")
    [level] = page.select(".level")
    assert "risk" in level["class"]
    assert said == level.text.strip()
    assert "safe" not in page.text.lower()
    assert ["grave"] == [" ".join(each["class"]) for each in page.select("form.confirm button")]
    assert page.select_one(".card > .bad") is not None


def test_a_failover_without_loss_says_so(client_of_plan: Callable[..., FlaskClient]) -> None:
    client = client_of_plan(**DEAD)
    assert "No data is lost." in part(client, "loss")
    page = BeautifulSoup(client.get(AT).text, "html.parser")
    assert [] == page.select(".risk, .card .bad, button.grave")


def test_every_observer_is_counted_and_named_with_what_it_reports(
    client_of_plan: Callable[..., FlaskClient],
) -> None:
    said = part(client_of_plan(**DEAD, **LOSES), "evidence")
    assert "5 of 5 observers report it down" in said
    for observer in ("The control host's probe", "Indico instance one", "Follower b"):
        assert f"{observer} : down" in said.replace(":", " :").replace("  ", " ")
    assert "nothing listens on 127.0.0.1:8111" in said


def test_an_observer_that_is_not_certain_is_not_counted_as_a_report(
    client_of_plan: Callable[..., FlaskClient],
) -> None:
    unsure = {**DEAD, "indico": {**DEAD["indico"], "two": situations.REFUSED}}
    said = part(client_of_plan(**unsure), "evidence")
    assert "4 of 5 observers report it down" in said
    assert "inconclusive" in said


def test_a_plan_keeps_what_each_observer_reports() -> None:
    found = planning.situation(situations.cluster(), **DEAD)
    said = evidence.reports_of(found.findings, found.snapshot, "a", Process.NONE, None)
    kept = evidence.reports_in(evidence.findings_of(said, "a"), "a")
    assert [dataclasses.replace(each, machine="") for each in said] == list(kept)


def test_the_new_primary_is_shown_with_why_it_and_not_another_one(
    client_of_plan: Callable[..., FlaskClient],
) -> None:
    of = planning.cluster_of(c=("a", Role.SECONDARY))
    older = star(answer={"last_tid": TID - 2 * ONE_SECOND})
    told = part(client_of_plan(of, **older), "successor")
    assert "Node b No other node that can take over has a newer transaction." in told
    assert "Runs as secondary" in told
    assert "Node c : ends 2.0 s earlier" in told.replace(":", " :").replace("  ", " ")


def test_a_choice_that_another_node_is_ahead_of_says_so(
    client_of_plan: Callable[..., FlaskClient],
) -> None:
    of = planning.cluster_of(c=("a", Role.SECONDARY))
    newer = star(answer={"last_tid": TID + 2 * ONE_SECOND})
    newer["compared"] = {"c": planning.compared(Relation.AHEAD, private=1)}
    client = client_of_plan(of, **newer)
    told = part(client, "successor")
    assert "Another node has a newer transaction." in told
    assert "a transaction that is 2.0 s newer" in told
    assert "Warnings c: is ahead of b" in told


def test_a_process_that_hangs_is_restarted_and_nobody_takes_over(
    client_of_plan: Callable[..., FlaskClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of_plan(**DEAD)
    said = (Report("its host", Sight.DOWN, "its process is stopped (SIGSTOP)"),) * 2
    spared = Finding(Verdict.FINE, "b", "the others stand in for it")
    hung = Plan("failover", "b", "", "", 0, (), None, (*evidence.findings_of(said, "b"), spared))
    monkeypatch.setattr(surveys, "prepare", lambda *_arguments: hung)
    assert "Node b is restarted The others stand in for it" in part(client, "successor")
    assert "2 of 2 observers report it down" in part(client, "evidence")


def test_steps_and_findings_are_folded_and_warnings_are_not(
    client_of_plan: Callable[..., FlaskClient],
) -> None:
    of = planning.cluster_of(c=("a", Role.SECONDARY))
    newer = star(answer={"last_tid": TID + 2 * ONE_SECOND})
    newer["compared"] = {"c": planning.compared(Relation.AHEAD, private=1)}
    page = BeautifulSoup(client_of_plan(of, **newer).get(AT).text, "html.parser")
    folds = {each["id"]: each for each in page.select("details.procedure")}
    assert {"plan-findings", "plan-steps"} == folds.keys()
    assert not any(each.has_attr("open") for each in folds.values())
    assert page.select("#plan-steps .step")
    [warning] = page.select(".warning")
    assert "is ahead of b" in warning.text
    assert warning.find_parent("details") is None


def test_a_viewer_sees_the_card_without_names_and_without_a_button(
    client_of_plan: Callable[..., FlaskClient], viewer: ClientFor
) -> None:
    watching = viewer(client_of_plan(**DEAD, **LOSES))
    assert "3 transactions" in part(watching, "loss")
    assert "Meeting" not in watching.get(AT).text
    assert "Only operators can begin operations." in part(watching, "begin")
    assert [] == region(watching, "begin").select("form")


@pytest.mark.parametrize(("width", "height", "screens"), [(1280, 800, 1.0), (390, 844, 2.5)])
def test_the_card_fits_a_screen_and_the_confirmation_stays_visible(
    client_of_plan: Callable[..., FlaskClient],
    serve_client: Callable[[FlaskClient], str],
    new_tab: chromium.NewTab,
    width: int,
    height: int,
    *,
    screens: float,
) -> None:
    of = planning.cluster_of(c=("a", Role.SECONDARY))
    newer = star(answer={"last_tid": TID + 2 * ONE_SECOND})
    newer["compared"] = {**LOSES["compared"], "c": planning.compared(Relation.AHEAD, private=1)}
    address, tab = serve_client(client_of_plan(of, **newer)) + AT, new_tab()
    tab.resize(width, height)
    for scheme in chromium.SCHEMES:
        tab.open(address)
        tab.paint(scheme)
        shots.keep(tab, f"card {width} {scheme}", whole=False)
        looks.check(tab, f"the card at {width}, {scheme}")
        shots.keep(tab, f"card {width} {scheme} opened")
    tab.open(address)
    button = tab.page.get_by_role("button", name="Begin failover to b")
    assert bottom(tab, ".card") <= screens * height - height_of(tab, ".begin")
    tab.page.get_by_text(re.compile(r"Steps \(\d+\)")).click()
    expect(tab.page.get_by_text("Promote b to primary").first).to_be_visible()
    for place in ("0", "document.body.scrollHeight / 2", "document.body.scrollHeight"):
        tab.evaluate(f"window.scrollTo(0, {place})")
        box = button.bounding_box()
        assert box is not None
        assert 0 <= box["y"] <= height - box["height"], place


def bottom(tab: chromium.Tab, selector: str) -> float:
    return float(
        tab.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().bottom")
    )


def height_of(tab: chromium.Tab, selector: str) -> float:
    return float(
        tab.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().height")
    )
