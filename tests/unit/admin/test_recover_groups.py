"""The page of a long recovery export: grouped by event, in pages of limited size."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import chromium
import long_exports
import looks
import pytest
import shots
from bs4 import BeautifulSoup
from exported_tails import FINE, HELD, LOST, NOTE, STUCK, TAIL, text
from flask.testing import FlaskClient

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.admin.recovery_groups import BUDGET, MOST_SHOWN, object_cost, pages_of
from indico_zodbrepl.operations import recover
from indico_zodbrepl.operations.recover import Difference, LostObject, LostTransaction, Recovery

MakeClient = Callable[..., FlaskClient]
MOST_BYTES = 200_000
PATH = f"/recover/{TAIL}"


@pytest.fixture
def client_of(
    make_client: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., FlaskClient]:
    """A function: an operator's client of a cluster whose export holds transactions."""

    def make(*lost: LostTransaction) -> FlaskClient:
        found = Recovery(TAIL, "0400000000000000", None, 0, lost)
        monkeypatch.setattr(recover, "show", lambda *_arguments: found)
        monkeypatch.setattr(surveys.Survey.wait, "__defaults__", (180.0,))
        long_exports.keep(tmp_path, TAIL, lost)
        return make_client()

    return make


def test_transactions_are_grouped_by_the_event_that_they_changed(
    client_of: Callable[..., FlaskClient],
) -> None:
    lost = long_exports.transactions(12, events=3)
    page = BeautifulSoup(client_of(*lost).get(PATH).text, "html.parser")
    groups = {
        title.text: len(each.select(".lost > li"))
        for each in page.select("section.event")
        for title in each.select("h3")
    }
    assert {
        'Conference 1 "Meeting 1"': 4,
        'Conference 2 "Meeting 2"': 4,
        'Conference 0 "Meeting 0"': 4,
    } == groups


def test_recoverable_transactions_come_first_and_those_of_the_database_last() -> None:
    fine, stuck = HELD
    stuck = dataclasses.replace(stuck, objects=stuck.objects[1:2])
    known = dataclasses.replace(fine, tid="0400000000000000", outcome="has it")
    other = dataclasses.replace(stuck.objects[0], oid="0000000000000999", what="Conference 9")
    had = LostTransaction("0400000000000009", "", "", "has it", (other,))
    [page] = pages_of([had, known, stuck, fine])
    shown = [[part.transaction.tid for part in group.parts] for group in page.groups]
    assert [[FINE, known.tid], [STUCK], [had.tid]] == shown


def test_a_new_event_that_conflicts_comes_before_changes_without_an_event() -> None:
    fine, stuck = HELD
    index = dataclasses.replace(stuck.objects[1], why="")
    others = [
        dataclasses.replace(fine, tid=f"{number:016x}", objects=(index,)) for number in range(300)
    ]
    first = pages_of([*others, stuck])[0].groups[0]
    assert [LOST] == [event for part in first.parts for event in part.events]


def test_changes_without_an_event_have_a_group_of_their_own(
    client_of: Callable[..., FlaskClient],
) -> None:
    index = dataclasses.replace(HELD[1].objects[1], why="")
    alone = LostTransaction("0400000000000005", "", "", "applies", (index,))
    shown = text(client_of(alone, *HELD).get(PATH))
    assert shown.index("Conference 0") < shown.index("Changes without an event")


def test_indexes_and_counters_are_folded_with_the_number_of_their_conflicts(
    client_of: Callable[..., FlaskClient],
) -> None:
    page = BeautifulSoup(client_of(*HELD).get(PATH).text, "html.parser")
    [fold] = page.select("details.others")
    assert not fold.has_attr("open")
    assert "1 other object, for example of an index; 1 conflicts" in " ".join(fold.text.split())
    assert "OOBTree" in fold.text
    assert "OOBTree" not in page.text.replace(fold.text, "")


def test_ten_thousand_transactions_are_shown_in_pages_of_less_than_200_kb(
    client_of: Callable[..., FlaskClient],
) -> None:
    client = client_of(*long_exports.transactions(10_000))
    first = client.get(PATH)
    told = re.search(r"Transactions 1 to (\d+) of 10000; page 1 of (\d+)", text(first))
    assert told is not None
    assert int(told[1]) <= MOST_SHOWN
    for number in (1, 2, int(told[2])):
        page = client.get(f"{PATH}?page={number}")
        assert 200 == page.status_code
        assert len(page.data) < MOST_BYTES, number
    assert "to 10000 of 10000" in text(page)
    assert "Next page" not in text(page)
    assert 404 == client.get(f"{PATH}?page={int(told[2]) + 1}").status_code


def test_the_links_lead_to_every_transaction_and_keep_the_comparison(
    client_of: Callable[..., FlaskClient],
) -> None:
    lost = long_exports.transactions(150)
    client, path = client_of(*lost), PATH
    seen: list[str] = []
    while path:
        page = BeautifulSoup(client.get(path).text, "html.parser")
        seen += [each.text for each in page.select(".lost > li > .pick code")]
        following = page.select_one("a[rel=next]")
        path = str(following["href"]) if following else ""
        assert not path or "survey=" in path
    assert sorted(each.tid for each in lost) == sorted(seen)


@pytest.mark.parametrize("page", ["0", "-1", "x", "9999999", "1e3", "\u0661"])
def test_a_page_that_does_not_exist_is_not_found(
    client_of: Callable[..., FlaskClient], page: str
) -> None:
    assert 404 == client_of(*HELD).get(PATH, query_string={"page": page}).status_code


def test_a_transaction_that_changed_very_much_continues_on_the_next_page(
    client_of: Callable[..., FlaskClient],
) -> None:
    [huge] = long_exports.transactions(1, objects=1000)
    pages = pages_of([huge, *long_exports.transactions(3)])
    parts = [part for page in pages for group in page.groups for part in group.parts]
    kept = [each for part in parts[:-3] for each in (*part.first, *part.others)]
    assert {each.oid for each in huge.objects} == {each.oid for each in kept}
    assert len(huge.objects) == len(kept)
    assert all(sum(map(object_cost, (*each.first, *each.others))) <= BUDGET for each in parts)
    client = client_of(huge)
    assert "Continued on the next page." in text(client.get(PATH))
    second = client.get(f"{PATH}?page=2")
    assert "(continued)" in text(second)
    assert len(second.data) < MOST_BYTES


def test_protected_values_are_shown_on_the_page_of_their_object(
    client_of: Callable[..., FlaskClient],
) -> None:
    client = client_of(*long_exports.transactions(150))
    page = BeautifulSoup(client.get(f"{PATH}?page=2").text, "html.parser")
    [form] = page.select("#reveal")
    [button, *_] = page.select("button[form=reveal]")
    sent = {str(each["name"]): str(each["value"]) for each in form.select("input")}
    assert "'later'" not in page.text
    answer = client.post(str(form["action"]), data={**sent, "object": str(button["value"])})
    assert "page 2 of" in text(answer)
    assert "'later'" in text(answer)


@pytest.mark.parametrize("shape", ["markup", "protected", "not latin", "nothing", "many events"])
def test_a_page_is_small_whatever_the_objects_hold(
    client_of: Callable[..., FlaskClient], shape: str
) -> None:
    value = {"markup": "<'&" * 100, "not latin": "\u5b57" * 300}.get(shape, "x" * 300)
    fields = tuple(
        Difference(f"{value[:60]}{number}", value, value, protected=shape == "protected")
        for number in range(60)
    )
    title = f'Conference 1 "{value}"'
    held: tuple[LostObject, ...] = tuple(
        dataclasses.replace(NOTE, oid=f"{number:016x}", what=title, differences=fields)
        for number in range(9)
    )
    if shape == "nothing":
        held = ()
    lost = []
    for number in range(250 if shape == "nothing" else 50):
        own = held
        if shape == "many events":
            new = (dataclasses.replace(LOST, oid=f"{number:08x}{at:08x}") for at in range(40))
            own = (*new, dataclasses.replace(held[0], differences=()))
        outcome = "conflicts" if number % 2 else "applies"
        lost.append(LostTransaction(f"{number:016x}", value, value, outcome, own))
    client = client_of(*lost)
    pages = len(pages_of(lost))
    for number in {1, 2, pages // 2, pages - 1, pages} & set(range(1, pages + 1)):
        assert len(client.get(f"{PATH}?page={number}").data) < MOST_BYTES, (number, pages)


def test_an_export_without_transactions_has_one_page() -> None:
    [page] = pages_of([])
    assert () == page.groups


def test_the_pages_fit_and_can_be_read(
    client_of: Callable[..., FlaskClient],
    serve_client: Callable[[FlaskClient], str],
    new_tab: chromium.NewTab,
) -> None:
    address = serve_client(client_of(*HELD, *long_exports.transactions(60, events=12)))
    tab = new_tab()
    for width in (1280, 390):
        tab.resize(width)
        for scheme in chromium.SCHEMES:
            tab.open(f"{address}{PATH}?page=2")
            tab.paint(scheme)
            shots.keep(tab, f"recover {width} {scheme}")
    looks.check_at(tab, "a long export", (1280, 390))
