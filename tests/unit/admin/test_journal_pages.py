"""The journal's pages: what is found, what one operation was, and what it exported."""

from __future__ import annotations

import dataclasses
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import past
import pytest
import situations
from bs4 import BeautifulSoup
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from read_pages import soup, text_of

from indico_zodbrepl.admin.journal_view import PAGE, Wanted, select
from indico_zodbrepl.admin.pages import journal as pages
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations import journal, store
from indico_zodbrepl.operations.operation import Outcome, Progress, StepRecord

MakeClient = Callable[[], FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]


@pytest.fixture
def of(tmp_path: Path) -> Cluster:
    """The cluster of ``make_client``."""
    return dataclasses.replace(situations.cluster(), var_directory=tmp_path)


@pytest.fixture
def client(make_client: MakeClient) -> FlaskClient:
    return make_client()


def listed(page: BeautifulSoup) -> list[str]:
    """The operations of a page, by the paths of their links."""
    return [str(link["href"]).rpartition("/")[2] for link in page.select("table.journal th a")]


def test_an_empty_journal_says_so(client: FlaskClient) -> None:
    assert "there was no operation yet" in text_of(soup(client, "/journal"))


def test_operations_are_listed_newest_first_with_who_what_came_of_it_and_what_it_cost(
    client: FlaskClient, of: Cluster
) -> None:
    failover, later = past.failover(Path("/x")), past.packing(1)
    past.keep(of, failover, later)
    page = soup(client, "/journal")
    assert [later.identifier, failover.identifier] == listed(page)
    row = text_of(page, "table.journal tbody tr:nth-of-type(2)")
    for expected in (
        "Failover to b",
        "from a",
        "2026-11-20 11:06:07",
        "anna",
        "incomplete",
        "3",
        "4.25 s",
        "a's disk is broken",
    ):
        assert expected in row
    assert "2 operations" in text_of(page)


def test_the_filter_names_in_words_what_has_a_name_that_is_no_word(
    client: FlaskClient, of: Cluster
) -> None:
    with journal.journaled(of, "admin-user-add", "alice", ""):
        pass
    page = soup(client, "/journal?kind=admin-user-add")
    assert 1 == len(listed(page))
    assert "account added" in text_of(page, "select[name=kind] option[selected]")
    assert "Account added: alice" in text_of(page, "table.journal th a")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kind=failover", [0]),
        ("kind=pack", [2, 1]),
        ("node=c", [0]),
        ("node=test", [2, 1]),
        ("outcome=incomplete", [0]),
        ("outcome=running", []),
        ("actor=eve", [2]),
        ("since=2026-11-20T11:07", [2, 1]),
        ("until=2026-11-20T11:07", [0]),
        ("since=2026-11-20T11:07:07&until=2026-11-20T11:08:07", [1]),
        ("text=DISK", [0]),
        ("text=spring", [0]),
        ("text=no+answer+within", [0]),
        ("kind=pack&actor=cron", [1]),
        ("kind=&node=&outcome=&actor=&since=&until=&text=&page=", [2, 1, 0]),
    ],
)
def test_a_filter_leaves_what_fits(
    client: FlaskClient, of: Cluster, query: str, expected: list[int]
) -> None:
    entries = [past.failover(Path("/x")), past.packing(1), past.packing(2, "eve")]
    past.keep(of, *entries)
    page = soup(client, f"/journal?{query}")
    assert [entries[index].identifier for index in expected] == listed(page)


def test_pages_follow_one_another_and_keep_the_filter(client: FlaskClient, of: Cluster) -> None:
    entries = [past.packing(number) for number in range(2 * PAGE + 1)]
    past.keep(of, past.failover(Path("/x"), -1), *entries)
    seen = []
    path = "/journal?kind=pack"
    while path:
        page = soup(client, path)
        seen += listed(page)
        following = page.select_one("a[rel=next]")
        path = str(following["href"]) if following else ""
    assert [each.identifier for each in reversed(entries)] == seen


@pytest.mark.parametrize(
    "query",
    [
        "kind=nonsense",
        "outcome=fine",
        "since=yesterday",
        "until=2026-99-99T00:00",
        "page=0",
        "page=x",
        "page=" + "9" * 5000,
        "text=" + "x" * 201,
        "node=%00",
        "since=%ff",
    ],
)
def test_what_can_not_be_understood_is_said_and_finds_nothing(
    client: FlaskClient, of: Cluster, query: str
) -> None:
    past.keep(of, past.packing(0))
    page = soup(client, f"/journal?{query}", 400)
    assert [] == listed(page)
    assert "Invalid filter" in text_of(page, "[role=alert]")


@given(
    st.dictionaries(
        st.sampled_from(["kind", "node", "outcome", "actor", "since", "until", "text", "page"]),
        st.text(),
    )
)
def test_no_filter_ends_in_an_error_of_the_page(asked: dict[str, str]) -> None:
    """Whatever is asked: pure, as the test above asks through the page."""
    wanted = Wanted(
        kind=asked.get("kind", ""), node=asked.get("node", ""), text=asked.get("text", "")
    )
    found = select([past.failover(Path("/x")), past.packing(1)], wanted, 1)
    assert found.fitting == len(found.entries) == sum(found.outcomes.values())


def test_damaged_lines_are_reported_and_the_others_shown(client: FlaskClient, of: Cluster) -> None:
    past.keep(of, past.packing(0))
    with Layout(of).journal.open("a") as file:
        file.write("<script>\n")
    past.keep(of, past.packing(1))
    page = soup(client, "/journal")
    assert 2 == len(listed(page))
    told = text_of(page, ".damaged")
    assert "1 line of the journal is unreadable" in told
    assert f"{Layout(of).journal}:2" in told


def test_a_journal_that_can_not_be_read_is_reported(client: FlaskClient, of: Cluster) -> None:
    Layout(of).journal.mkdir()
    assert "the journal can't be read" in text_of(soup(client, "/journal", 503)).lower()


def test_one_operation_is_shown_whole(client: FlaskClient, of: Cluster) -> None:
    folder = past.tail(of)
    entry = past.failover(folder)
    past.keep(of, entry)
    page = soup(client, f"/journal/{entry.identifier}")
    told = text_of(page)
    for expected in (
        "Failover to b is done, but some steps failed",
        "a's disk is broken",
        "anna",
        "2026-11-20 11:06:07 UTC",
        "3 transactions of 1.5 s, from 2 users",
        'Conference 7 "Spring <school>"',
        "does not answer",
        "(no answer within 2 s)",
        "has <b>another</b> history",
        "c: no answer within 2 s",
        "Processes killed 812",
        "Writable after the plan was made 4.25 s",
        "bin/zodbrepl node promote b",
        "Point of no return",
    ):
        assert expected in told
    assert [f"/recover/{past.TAIL}"] == [link["href"] for link in page.select(".tail a")]
    assert [f"/journal/{entry.identifier}/tail?name={past.TAIL}"] == [
        form["action"] for form in page.select(".tail form")
    ]


def test_the_entry_of_a_pack_says_what_it_removed(client: FlaskClient, of: Cluster) -> None:
    entry = past.packing(1)
    past.keep(of, entry)
    page = soup(client, f"/journal/{entry.identifier}")
    assert "removes old revisions" in text_of(page, "#lost")
    assert [] == page.select("#lost.nothing-lost")


def test_each_step_has_a_bar_of_its_part_of_the_time(client: FlaskClient, of: Cluster) -> None:
    entry = past.failover(Path("/x"))
    past.keep(of, entry)
    parts = soup(client, f"/journal/{entry.identifier}").select("svg.bar-of-step .part")
    assert [("0.0%", "20.0%"), ("20.0%", "20.0%"), ("40.0%", "20.0%"), ("60.0%", "40.0%")] == [
        (part["x"], part["width"]) for part in parts
    ]


def test_the_unambiguous_beginning_of_an_id_is_enough(client: FlaskClient, of: Cluster) -> None:
    entry, other = past.failover(Path("/x")), past.packing(1)
    past.keep(of, entry, other)
    assert entry.identifier in text_of(soup(client, "/journal/20261120T110607"))
    for wrong, number in (("20261120", 2), ("nothing", 0), ("%00", 0), ("%ff", 0)):
        assert f"The journal has {number} operations" in text_of(
            soup(client, f"/journal/{wrong}", 404)
        )


def test_an_open_operation_is_shown_as_far_as_it_has_come(client: FlaskClient, of: Cluster) -> None:
    ended = past.failover(Path("/x"))
    begun = dataclasses.replace(
        ended, outcome=Outcome.RUNNING, ended=None, records=tuple(StepRecord() for _ in range(4))
    )
    past.keep(of, begun)
    Layout(of).run.mkdir(exist_ok=True)
    store.save(
        of,
        begun.changed(0, ended.records[0]).changed(1, StepRecord(Progress.BEGUN, past.BEGAN + 1)),
    )
    page = soup(client, f"/journal/{begun.identifier}")
    assert "no process executes it" in text_of(page)
    assert ["done", "interrupted", "pending", "pending"] == [
        each.get_text() for each in page.select(".step .word")
    ]
    assert page.select("[data-live]#steps")


def test_a_page_of_the_journal_needs_no_snapshot(client: FlaskClient, of: Cluster) -> None:
    """The journal is read when the monitor sees nothing, too; also of an open operation."""
    begun = dataclasses.replace(past.failover(Path("/x")), outcome=Outcome.RUNNING, ended=None)
    past.keep(of, begun)
    site = client.application.extensions["zodbrepl"]
    site.watcher.latest = lambda **_patience: None
    for path in ("/journal", f"/journal/{begun.identifier}"):
        assert begun.plan.reason in text_of(soup(client, path))


def test_a_tail_is_downloaded_as_a_zip_file_with_its_blobs(
    client: FlaskClient, of: Cluster
) -> None:
    folder = past.tail(of)
    entry = past.failover(folder)
    past.keep(of, entry)
    answer = client.post(f"/journal/{entry.identifier}/tail", buffered=True)
    assert (200, "application/zip", f"attachment; filename={past.TAIL}.zip") == (
        answer.status_code,
        answer.mimetype,
        answer.headers["Content-Disposition"],
    )
    with zipfile.ZipFile(io.BytesIO(answer.data)) as archive:
        assert archive.testzip() is None
        found = {name: archive.read(name) for name in archive.namelist()}
    expected = {
        f"{past.TAIL}/{path.relative_to(folder)}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert expected == found
    assert 3 == len(found)


def test_a_large_tail_is_never_whole_in_memory(client: FlaskClient, of: Cluster) -> None:
    folder = past.tail(of)
    (folder / "tail.fs").write_bytes(os.urandom(9_000_000))
    past.keep(of, entry := past.failover(folder))
    answer = client.post(f"/journal/{entry.identifier}/tail", buffered=False)
    sizes = [len(piece) for piece in answer.response]
    answer.close()
    assert sum(sizes) > 9_000_000
    assert max(sizes) < 2_500_000
    assert "Content-Length" not in answer.headers


@pytest.mark.parametrize(
    "exported_to",
    [
        "/etc",
        "",
        ".",
        "..",
        "{tails}",
        "{tails}/..",
        "{tails}/../secrets",
        "{tails}/../../{tail}",
        "{var}/secrets",
        "{tails}/gone",
        "{tails}/linked",
        "{tails}/{tail}/blobs",
    ],
)
def test_nothing_but_a_tail_is_downloaded(
    client: FlaskClient, of: Cluster, exported_to: str
) -> None:
    past.tail(of)
    secrets = Layout(of).var / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "tail.json").write_text("{}")
    (Layout(of).lost_tails / "linked").symlink_to(secrets)
    folder = exported_to.format(tails=Layout(of).lost_tails, tail=past.TAIL, var=Layout(of).var)
    past.keep(of, entry := past.failover(Path(folder)))
    assert 404 == client.post(f"/journal/{entry.identifier}/tail", buffered=True).status_code


@pytest.mark.parametrize("name", ["other", "..", "", "../secrets", past.TAIL + "/blobs", "%00"])
def test_a_name_that_the_operation_did_not_export_is_not_found(
    client: FlaskClient, of: Cluster, name: str
) -> None:
    past.keep(of, entry := past.failover(past.tail(of)))
    assert 404 == client.post(f"/journal/{entry.identifier}/tail?name={name}").status_code


def test_a_link_in_a_tail_is_not_followed(client: FlaskClient, of: Cluster) -> None:
    folder = past.tail(of)
    (folder / "secret").symlink_to("/etc/passwd")
    (folder / "more").symlink_to("/etc")
    past.keep(of, entry := past.failover(folder))
    answer = client.post(f"/journal/{entry.identifier}/tail", buffered=True)
    assert 3 == len(zipfile.ZipFile(io.BytesIO(answer.data)).namelist())


def test_only_operators_download_and_a_viewer_is_told_why(
    client: FlaskClient, of: Cluster, viewer: ClientFor, anonymous: ClientFor
) -> None:
    past.keep(of, entry := past.failover(past.tail(of)))
    path = f"/journal/{entry.identifier}"
    assert "Only operators can see or download" in text_of(soup(viewer(client), path), ".tail")
    assert 403 == viewer(client).post(f"{path}/tail", buffered=True).status_code
    assert 400 == anonymous(client).post(f"{path}/tail", buffered=True).status_code
    assert 303 == anonymous(client).get("/journal").status_code


def test_downloads_leave_threads_for_others(client: FlaskClient, of: Cluster) -> None:
    past.keep(of, entry := past.failover(past.tail(of)))
    path = f"/journal/{entry.identifier}/tail"
    taken = [client.post(path, buffered=False) for _ in range(pages.DOWNLOADS)]
    refused = client.post(path)
    assert (503, True) == (refused.status_code, "being downloaded" in refused.text)
    for answer in taken:
        answer.close()
    for _number in range(pages.DOWNLOADS + 1):
        assert 200 == client.post(path, buffered=True).status_code


def test_the_journal_names_who_downloaded_an_export(client: FlaskClient, of: Cluster) -> None:
    past.keep(of, entry := past.failover(past.tail(of)))
    path = f"/journal/{entry.identifier}/tail"
    assert 405 == client.get(path).status_code, "a link on another site must not do it"
    assert 200 == client.post(path, buffered=True).status_code
    made = journal.read(of)[0][-1]
    assert ("export-downloaded", past.TAIL, "alice (admin page)") == (
        made.plan.operation,
        made.plan.target,
        made.actor,
    )
    assert "recovery export downloaded" in client.get("/journal").text.lower()


def test_an_operation_shows_how_long_users_could_not_save_beside_its_own_downtime(
    client: FlaskClient, of: Cluster
) -> None:
    failover = past.failover(past.tail(of))
    past.keep(of, past.outage(), failover, past.packing(9))
    shown = text_of(soup(client, f"/journal/{failover.identifier}"))
    assert (
        "Users could not save: 198 s, from the last save (2026-11-20 11:02:52 UTC) to the first "
        "one after it (2026-11-20 11:06:10 UTC)." in shown
    )
    rows = [row.get_text(" ", strip=True) for row in soup(client, "/journal").select("tbody tr")]
    assert "198 s 4.25 s" in " ".join(rows[1].split())
    assert rows[0].startswith("Pack")
    assert rows[2].startswith("Saving interrupted: b")
    assert "198 s" in rows[2]
    told = client.get(f"/api/operations/{failover.identifier}").get_json()
    assert 198 == told["operation"]["outage"]["no_save_seconds"]
    short = {each["id"]: each for each in client.get("/api/operations").get_json()["operations"]}
    assert short[failover.identifier]["outage"] == told["operation"]["outage"]
    assert short[past.packing(9).identifier]["outage"] is None


def test_an_outage_in_which_nobody_saved_is_shown_as_a_limit(
    client: FlaskClient, of: Cluster
) -> None:
    found = past.outage(first_save=None)
    past.keep(of, found)
    shown = text_of(soup(client, f"/journal/{found.identifier}"))
    assert "at most 199 s: saving was impossible for 197 s. No save is known to have" in shown
