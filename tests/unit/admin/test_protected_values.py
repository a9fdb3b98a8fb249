"""What recovery exports hold is shown to operators only, and keys and passwords only on demand."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import past
import pytest
from exported_tails import FINE, HELD, NOTE, TAIL, DataPlane, give_tail, text
from flask.testing import FlaskClient

from indico_zodbrepl.admin.jobs import Job, Jobs
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Admin
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import journal, recover
from indico_zodbrepl.operations.recover import Difference, Recovery

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
KEY, SECRET = "0b1c7a30-0a64-4cf1-8d0a-0b62a9b7b1c4", "open sesame"
PATH = f"/recover/{TAIL}"
OBJECT = f"{FINE}:{NOTE.oid}"
OBJECTS = re.compile('name="object" value="([^"]*)"')


@pytest.fixture
def data_plane(monkeypatch: pytest.MonkeyPatch) -> DataPlane:
    """It compares an object with protected fields."""
    made = DataPlane()
    fields = (
        *NOTE.differences,
        Difference("_accessKey", SECRET, SECRET + "2"),
        Difference(KEY, None, "-> 3d5"),
    )
    kept = dataclasses.replace(NOTE, differences=fields)
    held = (dataclasses.replace(HELD[0], objects=(kept,)), *HELD[1:])

    def show(*_arguments: object) -> Recovery:
        return dataclasses.replace(made.show(), transactions=held)

    monkeypatch.setattr(recover, "show", show)
    return made


@pytest.fixture
def client(make_client: MakeClient, data_plane: DataPlane, tmp_path: Path) -> FlaskClient:
    """An operator's client of a cluster with one export."""
    del data_plane
    give_tail(tmp_path)
    return make_client()


def asked(page: str, wanted: str = OBJECT) -> dict[str, str]:
    """The form that asks for the protected values of an object."""
    found = re.search('<form id="reveal".*?name="survey" value="([^"]*)"', page, re.DOTALL)
    assert found is not None
    return {"survey": found[1], "object": wanted}


def shown_to(of: Cluster) -> list[tuple[str, str, str, str]]:
    return [
        (entry.plan.operation, entry.actor, entry.plan.target, entry.plan.reason)
        for entry in journal.read(of)[0]
    ]


def test_keys_and_passwords_are_masked_for_operators_too(client: FlaskClient) -> None:
    page = client.get(PATH)
    assert "_accessKey ******** ********" in text(page)
    assert "******** (nothing) ********" in text(page), "a key of an index is one"
    assert "room (nothing) 5-1" in text(page)
    assert SECRET not in page.text
    assert KEY not in page.text
    assert [OBJECT] == OBJECTS.findall(page.text)


def test_an_operator_asks_for_them_and_the_journal_says_so(
    client: FlaskClient, of: Cluster
) -> None:
    page = client.post(f"{PATH}/protected", data=asked(client.get(PATH).text))
    assert 200 == page.status_code
    assert f"_accessKey {SECRET} {SECRET}2" in text(page)
    assert KEY in page.text
    assert "no-store" == page.headers["Cache-Control"]
    reason = f"transaction {FINE}, object {NOTE.oid}"
    assert [("values-shown", "alice (admin page)", TAIL, reason)] == shown_to(of)
    entry = journal.read(of)[0][0]
    assert "Protected values shown" in text(client.get(f"/journal/{entry.identifier}"))
    assert SECRET not in client.get(PATH).text, "only once"


def test_nothing_is_shown_that_the_journal_cannot_record(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OperatorError("the journal can't be written")

    page = client.get(PATH).text
    monkeypatch.setattr(journal, "append", fail)
    answer = client.post(f"{PATH}/protected", data=asked(page))
    assert 503 == answer.status_code
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"object": f"{FINE}:0000000000000999"}, 404),
        ({"object": "x"}, 404),
        ({"object": ""}, 404),
        ({"survey": "expired"}, 303),
    ],
)
def test_only_values_of_a_comparison_are_shown(
    client: FlaskClient, of: Cluster, changes: dict[str, str], status: int
) -> None:
    answer = client.post(f"{PATH}/protected", data=asked(client.get(PATH).text) | changes)
    assert (status, []) == (answer.status_code, shown_to(of))
    assert SECRET not in answer.text


def test_a_read_only_page_shows_contents_but_no_protected_values(
    make_client: MakeClient, data_plane: DataPlane, tmp_path: Path
) -> None:
    del data_plane
    give_tail(tmp_path)
    client = make_client({"admin": Admin("127.0.0.1", 8100, read_only=True)})
    page = client.get(PATH)
    assert "room (nothing) 5-1" in text(page)
    assert "Protected values are hidden. This page is read-only." in text(page)
    assert [] == OBJECTS.findall(page.text)
    assert 403 == client.post(f"{PATH}/protected", data=asked(page.text)).status_code


@pytest.mark.parametrize("query", ["", "?pick=all", f"?pick={FINE}", "?event=00000000000003d5"])
def test_a_viewer_sees_that_an_export_exists_but_not_what_it_holds(
    client: FlaskClient, viewer: ClientFor, data_plane: DataPlane, query: str
) -> None:
    watching = viewer(client)
    listed = watching.get("/recover")
    assert f"{TAIL} " in text(listed)
    assert "Only operators can see or download the contents" in text(listed)
    assert "Conference" not in listed.text
    assert PATH not in listed.text
    answer = watching.get(PATH + query)
    assert (403, []) == (answer.status_code, data_plane.asked)
    assert "Conference" not in answer.text
    assert 403 == watching.post(f"{PATH}/protected{query}", data={}).status_code


def test_a_viewer_reads_no_names_of_lost_objects_in_the_journal(
    client: FlaskClient, of: Cluster, viewer: ClientFor
) -> None:
    past.keep(of, entry := past.failover(past.tail(of)))
    title = "Spring"
    assert title in str(entry.figures["exported_objects"])
    paths = [
        f"/journal/{entry.identifier}",
        "/operations/current",
        f"/api/operations/{entry.identifier}",
        "/api/operations",
    ]
    assert title in client.get(paths[0]).text
    assert title in client.get(paths[2]).text
    for path in paths:
        answer = viewer(client).get(path)
        assert 200 == answer.status_code
        assert title not in answer.text, path
    assert "1 operation matches" in text(client.get(f"/journal?text={title}"))
    assert "1 operation matches" not in text(viewer(client).get(f"/journal?text={title}"))


def test_a_viewer_reads_no_names_of_lost_objects_in_errors(
    client: FlaskClient, of: Cluster, viewer: ClientFor
) -> None:
    done = past.failover(past.tail(of))
    error = 'NOTICE: the event is not complete\nDETAIL: it needs Conference 7 "Autumn"'
    steps = tuple(dataclasses.replace(each, error=error) for each in done.records)
    past.keep(of, dataclasses.replace(done, remark=error, records=steps))
    for path in (f"/journal/{done.identifier}", f"/api/operations/{done.identifier}"):
        assert "Autumn" in client.get(path).text
        answer = viewer(client).get(path)
        assert "the event is not complete" in answer.text
        assert "Autumn" not in answer.text, path
    assert "1 operation matches" in text(client.get("/journal?text=Autumn"))
    assert "1 operation matches" not in text(viewer(client).get("/journal?text=Autumn"))


@pytest.mark.parametrize("code", [0, 5])
def test_a_viewer_reads_no_output_of_commands(
    client: FlaskClient, viewer: ClientFor, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    output = ("NOTICE: some title can't be recovered",)
    job = Job("job-1", "bin/zodbrepl recover x", "alice", 1.0, 2.0, code, output, None)
    monkeypatch.setattr(Jobs, "get", lambda _jobs, _identifier: job)
    monkeypatch.setattr(Jobs, "recent", lambda _jobs: [job])
    for path in ("/jobs/job-1", "/api/operations/job-1"):
        assert "some title" in client.get(path).text
        answer = viewer(client).get(path)
        assert 200 == answer.status_code
        assert "some title" not in answer.text
