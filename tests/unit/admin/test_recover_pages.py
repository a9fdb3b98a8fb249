"""Recovery exports: listed, compared with the database, picked, tried in a dry run, recovered."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import chromium
import looks
import pytest
from exported_tails import EVENT, EVIL, FINE, NOTE, STUCK, TAIL, DataPlane, give_tail, text
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.admin.jobs import Job, Jobs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import recover

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]


@pytest.fixture
def data_plane(monkeypatch: pytest.MonkeyPatch) -> DataPlane:
    made = DataPlane()
    monkeypatch.setattr(recover, "show", made.show)
    monkeypatch.setattr(recover, "apply", made.apply)
    monkeypatch.setattr(recover, "recover_event", made.event)
    return made


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """The commands that were started, each with who asked; none is."""
    calls: list[tuple[list[str], str]] = []

    def start(_jobs: Jobs, arguments: Sequence[str], actor: str) -> Job:
        calls.append((list(arguments), actor))
        return Job("job-1", "bin/zodbrepl recover", actor, 1.0, None, None, (), None)

    monkeypatch.setattr(Jobs, "run", start)
    return calls


@pytest.fixture
def client(
    make_client: MakeClient, data_plane: DataPlane, run: object, tmp_path: Path
) -> FlaskClient:
    """An operator's client of a cluster with one exported tail."""
    del data_plane, run
    give_tail(tmp_path)
    return make_client()


def sealed(page: TestResponse, **more: str) -> dict[str, str]:
    found = re.search('name="survey"[^>]*value="([^"]*)"', page.text)
    assert found is not None
    return {"survey": found[1], "confirm": "demo", **more}


def test_tails_are_listed_with_what_they_hold(client: FlaskClient) -> None:
    page = client.get("/recover")
    assert f'href="/recover/{TAIL}"' in page.text
    assert 'Conference 3 "Lost"' in text(page)


def test_without_tails_nothing_was_lost(make_client: MakeClient) -> None:
    assert "None: no transaction was lost." in text(make_client().get("/recover"))


def test_a_damaged_tail_is_listed_with_what_is_wrong(client: FlaskClient, tmp_path: Path) -> None:
    (give_tail(tmp_path, "b-3-x") / "tail.json").write_text("{")
    assert "b-3-x/tail.json: DecodeError" in text(client.get("/recover"))
    assert 200 == client.get("/recover/b-3-x").status_code


def test_a_tail_is_shown_beside_the_database(client: FlaskClient, data_plane: DataPlane) -> None:
    page = client.get(f"/recover/{TAIL}")
    shown = text(page)
    assert [("show",)] == data_plane.asked
    assert "1 recoverable, 1 conflicting, 0 already in the database." in shown
    assert f"2026-11-21 10:10:10 UTC, ann, {EVIL}" in shown
    assert "title" in shown
    assert f"Old {EVIL}" in shown
    assert "room (nothing) 5-1" in shown
    assert "conflicts: both sides changed the same part" in shown
    assert EVIL not in page.text
    boxes = re.findall('<input type="checkbox" name="pick" value="([^"]*)"([^>]*)>', page.text)
    assert [(FINE, ""), (STUCK, " disabled"), (f"{STUCK}:{NOTE.oid}", "")] == boxes
    assert f'href="/recover/{TAIL}?event={EVENT}"' in page.text


@pytest.mark.parametrize(
    ("query", "picks", "arguments"),
    [
        ("pick=all", ("all",), ["--all"]),
        (f"pick={FINE}", (FINE,), ["--transactions", FINE]),
        (
            f"pick={FINE}&pick={FINE}&pick={STUCK}:{NOTE.oid}",
            (FINE, f"{STUCK}:{NOTE.oid}"),
            ["--transactions", FINE, "--apply", f"{STUCK}:{NOTE.oid}"],
        ),
    ],
)
def test_what_is_picked_is_tried_first_and_made_again_as_a_job(
    client: FlaskClient,
    data_plane: DataPlane,
    run: list[Any],
    tmp_path: Path,
    *,
    query: str,
    picks: tuple[str, ...],
    arguments: list[str],
) -> None:
    address = f"/recover/{TAIL}?{query}"
    page = client.get(address)
    assert [(picks, True)] == data_plane.asked, "a dry run"
    assert "4 objects would be written." in text(page)
    assert [] == run
    answer = client.post(address, data=sealed(page))
    assert (303, "/jobs/job-1") == (answer.status_code, answer.headers["Location"])
    folder = str(tmp_path / "lost-tails" / TAIL)
    assert [(["recover", folder, *arguments], "alice (admin page)")] == run
    assert [(picks, True)] == data_plane.asked, "the page itself writes nothing"


def test_an_event_comes_back_under_a_new_number_once_it_was_tried(
    client: FlaskClient, data_plane: DataPlane, run: list[Any], tmp_path: Path
) -> None:
    address = f"/recover/{TAIL}?event={EVENT}"
    page = client.get(address)
    assert [(EVENT, True)] == data_plane.asked
    assert "under a new number, with all its 17 objects: Lost" in text(page)
    client.post(address, data=sealed(page))
    assert [["recover", str(tmp_path / "lost-tails" / TAIL), "--event", EVENT]] == [
        arguments for arguments, _actor in run
    ]


def test_another_name_makes_nothing_again(client: FlaskClient, run: list[Any]) -> None:
    address = f"/recover/{TAIL}?pick=all"
    answer = client.post(address, data=sealed(client.get(address), confirm="a"))
    assert (400, []) == (answer.status_code, run)
    assert "This is not demo. Nothing was started." in text(answer)


def test_what_was_tried_makes_nothing_else_again(client: FlaskClient, run: list[Any]) -> None:
    page = client.get(f"/recover/{TAIL}?pick={FINE}")
    answer = client.post(f"/recover/{TAIL}?pick=all", data=sealed(page))
    assert (303, []) == (answer.status_code, run)
    assert f"/recover/{TAIL}?pick=all" == answer.headers["Location"]


def test_nothing_picked_is_nothing_to_make_again(client: FlaskClient, run: list[Any]) -> None:
    assert 400 == client.post(f"/recover/{TAIL}", data={"confirm": "demo"}).status_code
    assert [] == run


def test_a_viewer_tries_and_makes_nothing_again(
    client: FlaskClient, viewer: ClientFor, run: list[Any]
) -> None:
    watching = viewer(client)
    assert 403 == watching.get(f"/recover/{TAIL}?pick=all").status_code
    assert 403 == watching.post(f"/recover/{TAIL}?pick=all", data={}).status_code
    assert [] == run


def test_a_post_without_the_token_is_refused(client: FlaskClient, run: list[Any]) -> None:
    address = f"/recover/{TAIL}?pick=all"
    page = client.get(address)
    del client.environ_base["HTTP_X_CSRFTOKEN"]
    assert 400 == client.post(address, data=sealed(page)).status_code
    assert [] == run


@pytest.mark.parametrize(
    "name",
    [
        "nothing",
        "..",
        "..%2f..",
        "a-2-20261121T101010Z%2f..",
        ".hidden",
        "a%00b",
        "x" * 300,
        "outside",
        "file",
    ],
)
def test_only_an_exported_tail_is_one(client: FlaskClient, tmp_path: Path, name: str) -> None:
    tails = tmp_path / "lost-tails"
    (tmp_path / "tail.json").write_text("{}")
    (tails / "file").write_text("")
    (tails / "outside").symlink_to(tails / TAIL)
    for answer in (client.get(f"/recover/{name}"), client.post(f"/recover/{name}?pick=all")):
        assert answer.status_code in (404, 308), "and never what is elsewhere"
        assert "Conference" not in answer.text


@pytest.mark.parametrize(
    "query",
    [
        "pick=1",
        f"pick={FINE},{STUCK}",
        "pick=--all",
        f"pick={FINE.upper()}X",
        "event=1",
        f"event={EVENT}&pick=all",
        "pick=",
        "&".join(f"pick={number:016x}" for number in range(2001)),
    ],
)
def test_picks_of_another_form_are_refused(
    client: FlaskClient, data_plane: DataPlane, query: str
) -> None:
    assert 400 == client.get(f"/recover/{TAIL}?{query}").status_code
    assert 400 == client.post(f"/recover/{TAIL}?{query}").status_code
    assert [] == data_plane.asked


def test_an_error_of_the_data_plane_is_reported_with_its_hint(
    client: FlaskClient, data_plane: DataPlane
) -> None:
    data_plane.error = OperatorError(
        "nothing was recovered", "no storage answers", "bin/zodbrepl status", ExitCode.NOT_RUNNING
    )
    shown = text(client.get(f"/recover/{TAIL}"))
    assert "Nothing was recovered" in shown
    assert "no storage answers" in shown
    assert "bin/zodbrepl status" in shown


def test_a_slow_look_shows_what_was_lost_meanwhile(
    client: FlaskClient, data_plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys.Survey.wait, "__defaults__", (0.05,))
    data_plane.goes_on.clear()
    first = client.get(f"/recover/{TAIL}")
    assert 303 == first.status_code
    waiting = client.get(first.headers["Location"])
    assert "Comparing with the database" in text(waiting)
    assert 'Conference 3 "Lost"' in text(waiting)
    assert f'content="2; url={first.headers["Location"]}"' in waiting.text
    data_plane.goes_on.set()
    monkeypatch.setattr(surveys.Survey.wait, "__defaults__", (180.0,))
    assert "1 recoverable" in text(client.get(first.headers["Location"]))
    assert 1 == len(data_plane.asked)


def test_the_pages_fit_and_can_be_read(
    client: FlaskClient,
    serve_client: Callable[[FlaskClient], str],
    new_tab: chromium.NewTab,
) -> None:
    address, tab = serve_client(client), new_tab()
    for path in ("", f"/{TAIL}", f"/{TAIL}?pick=all", f"/{TAIL}?event={EVENT}"):
        tab.open(f"{address}/recover{path}")
        looks.check_at(tab, path, (1280, 390))


@pytest.mark.parametrize("path", ["", f"/{TAIL}", f"/{TAIL}?pick=all&pick=x"])
def test_the_former_paths_redirect(client: FlaskClient, path: str) -> None:
    answer = client.get(f"/salvage{path}")
    assert (308, f"/recover{path}") == (answer.status_code, answer.headers["Location"])
