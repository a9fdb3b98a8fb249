"""Lost transactions stand on every page until they are recovered or somebody decides."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable
from pathlib import Path

import past
import pytest
from exported_tails import DataPlane, text
from flask.testing import FlaskClient

from indico_zodbrepl.admin import journal_view, loss_notice
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import exports
from indico_zodbrepl.operations import journal, recover
from indico_zodbrepl.operations.losses import NEVER_TOLD
from indico_zodbrepl.operations.model import Finding, Loss, Verdict
from indico_zodbrepl.operations.operation import Operation, Outcome, StepRecord

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
NOTICE = "Lost transactions wait for a decision."
OTHER = "a-3-20261121T110607Z"
PAGES = (
    "/",
    "/node/a",
    "/operations",
    "/journal",
    "/incident",
    "/data",
    "/recover",
    "/nothing-here",
)


@pytest.fixture
def client(make_client: MakeClient) -> FlaskClient:
    return make_client()


def unread() -> Operation:
    """A failover that could not read what the old primary has."""
    made = past.failover(Path("/x"))
    lost = Loss("a", None, None, False, None, "possibly some transactions: a does not answer")
    return dataclasses.replace(
        made,
        plan=dataclasses.replace(made.plan, loss=lost),
        records=tuple(StepRecord(progress=each.progress) for each in made.records),
    )


def of_76(of: Cluster) -> Operation:
    """A failover that lost 76 transactions, which were exported."""
    made = past.failover(past.tail(of, OTHER), 10)
    figures = {**made.records[1].figures, "lost_transactions": 76}
    records = list(made.records)
    records[1] = dataclasses.replace(records[1], figures=figures)
    return dataclasses.replace(made, records=tuple(records))


def decide(client: FlaskClient, name: str, reason: str = "the users were told") -> int:
    return client.post(f"/recover/{name}/decide", data={"reason": reason}).status_code


def test_every_page_says_how_many_transactions_wait_since_when_and_whose_they_are(
    client: FlaskClient, of: Cluster, anonymous: ClientFor
) -> None:
    past.keep(of, past.failover(past.tail(of)), of_76(of))
    for path in PAGES:
        shown = text(client.get(path))
        assert f"{NOTICE} 2 recovery exports : 79 transactions ." in shown.replace(
            "exports:", "exports :"
        ).replace("transactions.", "transactions ."), path
        assert re.search(r"The oldest dates from 2026-11-20 11:06:07 UTC, \d+ \w+ ago\.", shown), (
            path
        )
        assert "Owner: nobody yet." in shown, path
    assert NOTICE not in text(anonymous(client).get("/login"))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (59, "less than a minute ago"),
        (61, "a minute ago"),
        (150, "2 minutes ago"),
        (7300, "2 hours ago"),
    ],
)
def test_a_loss_is_never_said_to_be_younger_than_it_is(
    client: FlaskClient, of: Cluster, monkeypatch: pytest.MonkeyPatch, seconds: int, said: str
) -> None:
    past.keep(of, of_76(of))
    [lost] = journal_view.lost(of)
    clock = types.SimpleNamespace(time=lambda: lost.at + seconds)
    monkeypatch.setattr(loss_notice, "time", clock)
    assert f", {said}." in text(client.get("/journal"))


def test_transactions_that_no_user_was_told_of_are_no_alarm(
    client: FlaskClient, of: Cluster
) -> None:
    made = past.failover(past.tail(of))
    told = Finding(Verdict.FINE, "a", NEVER_TOLD)
    plan = dataclasses.replace(made.plan, findings=(*made.plan.findings, told))
    past.keep(of, dataclasses.replace(made, plan=plan))
    shown = client.get("/")
    assert "no user was told that they were saved. 1 recovery export" in text(shown)
    assert 'class="alarm doubtful"' in shown.text
    past.keep(of, of_76(of))
    assert NOTICE in text(client.get("/"))


def test_without_a_loss_there_is_no_notice(client: FlaskClient, of: Cluster) -> None:
    past.keep(of, past.packing(1))
    for path in PAGES:
        assert NOTICE not in text(client.get(path))
    assert "Nothing to do." in text(client.get("/"))


def test_a_healthy_cluster_has_something_to_do_while_losses_wait(
    client: FlaskClient, of: Cluster
) -> None:
    past.keep(of, past.failover(past.tail(of)))
    shown = text(client.get("/"))
    assert "Nothing to do." not in shown
    assert "Decide about the lost transactions." in shown


def test_an_operator_decides_and_the_journal_has_name_and_reason(
    client: FlaskClient, of: Cluster
) -> None:
    past.keep(of, past.failover(past.tail(of)), of_76(of))
    assert f'href="/recover/{OTHER}/decide"' in client.get("/recover").text
    assert "76 transactions" in text(client.get(f"/recover/{OTHER}/decide"))
    assert 303 == decide(client, OTHER)
    shown = text(client.get("/recover"))
    assert "1 recovery export : 3 transactions ." in shown.replace("export:", "export :").replace(
        "transactions.", "transactions ."
    )
    assert re.search(r"alice \(admin page\), [-0-9]+ [0-9:]+ UTC: the users were told", shown)
    entry = journal.read(of)[0][-1]
    assert ("loss-decided", OTHER, "alice (admin page)", Outcome.DONE) == (
        entry.plan.operation,
        entry.plan.target,
        entry.actor,
        entry.outcome,
    )
    assert "Decision about a loss" in text(client.get(f"/journal/{entry.identifier}"))
    assert 303 == decide(client, past.TAIL)
    assert NOTICE not in text(client.get("/"))


def test_the_page_of_an_export_says_who_decided_about_it(
    client: FlaskClient, of: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recover, "show", DataPlane().show)
    past.keep(of, past.failover(past.tail(of)))
    assert "Decided by: nobody yet Decide" in text(client.get(f"/recover/{past.TAIL}"))
    assert 303 == decide(client, past.TAIL)
    assert "Decided by: alice (admin page), " in text(client.get(f"/recover/{past.TAIL}"))


def test_a_decision_needs_a_reason_and_a_loss(client: FlaskClient, of: Cluster) -> None:
    past.keep(of, past.failover(past.tail(of)))
    assert 400 == decide(client, past.TAIL, "  ")
    assert 400 == decide(client, past.TAIL, "x" * 501)
    assert 404 == decide(client, "another")
    assert NOTICE in text(client.get("/"))


def test_a_viewer_sees_the_notice_and_decides_nothing(
    client: FlaskClient, of: Cluster, viewer: ClientFor
) -> None:
    past.keep(of, past.failover(past.tail(of)))
    watching = viewer(client)
    assert NOTICE in text(watching.get("/"))
    assert "/decide" not in watching.get("/recover").text
    assert "victor is a viewer" in text(watching.get(f"/recover/{past.TAIL}/decide"))
    assert 403 == decide(watching, past.TAIL)


def test_right_after_a_failover_that_lost_an_unknown_number_the_page_says_so(
    client: FlaskClient, of: Cluster
) -> None:
    past.keep(of, entry := unread())
    shown = text(client.get("/recover"))
    assert "no transaction was lost" not in shown
    assert "1 loss is not exported yet. The oldest" in shown
    assert "Failover to b , 2026-11-20 11:06:07 UTC" in shown
    assert "The number of lost transactions is not known yet." in shown
    assert "Possibly some transactions: a does not answer. Only node a has them." in shown
    assert "When its host is back, rejoin it" in shown
    assert 303 == decide(client, entry.identifier, "the disk is destroyed")
    assert NOTICE not in text(client.get("/"))


def test_an_export_that_no_host_has_is_listed_as_well(client: FlaskClient, of: Cluster) -> None:
    past.keep(of, past.failover(Path("/elsewhere") / past.TAIL))
    shown = text(client.get("/recover"))
    assert f"3 transactions were exported to {past.TAIL}. No host that answers has" in shown


def test_the_notice_compares_nothing_and_reads_no_export(
    client: FlaskClient, of: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    past.keep(of, past.failover(past.tail(of)))
    assert NOTICE in text(client.get("/"))

    def refuse(*_arguments: object) -> None:
        raise AssertionError

    for module, name in ((exports, "find"), (exports, "every"), (journal, "read")):
        monkeypatch.setattr(module, name, refuse)
    assert NOTICE in text(client.get("/"))


def test_an_unreadable_journal_does_not_break_the_pages(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OperatorError("the journal can't be read")

    monkeypatch.setattr(journal_view, "lost", fail)
    assert 200 == client.get("/").status_code
