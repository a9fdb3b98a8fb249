"""What the steps of a rejoin leave in a node's history file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs, history
from indico_zodbrepl.host.datafs_answers import Common, Comparison, Export, Relation
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.operations import divergence, rejoin_steps
from indico_zodbrepl.operations.model import Context, Figures, Plan, Step

HOME = Path(__file__).parents[3]
AFTER = (rejoin_steps.Cut,)
"""The steps from the point of no return on."""
EARLIER, COMMON = "0400000000000004", "0400000000000005"
FOUND = Comparison(
    relation=Relation.DIVERGED,
    common=Common(COMMON, "dd"),
    private=5,
    private_first=None,
    private_last=None,
    missing=0,
    holes=0,
    conflicting=0,
    packed=False,
    packed_away=0,
    packed_away_last=None,
    bytes_private=0,
    examined=10,
)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster.conf").read_text())
    made = load(path, tmp_path)
    made.node("a").data_directory.mkdir(parents=True)
    return made


def step(kind: type[Step], **arguments: object) -> Step:
    return kind("a", arguments, title="Cut it", seconds=10.0, after_no_return=kind in AFTER)  # type: ignore[arg-type]


def context(cluster: Cluster, results: dict[tuple[str, str], Figures] | None = None) -> Context:
    plan = Plan("rejoin", "a", "b", "", 2, (), None, ())
    return Context(
        cluster=cluster,
        installation=Installation(HOME),
        began=0.0,
        plan=plan,
        results=results or {},
        say=lambda _text: None,
    )


def known(cluster: Cluster) -> history.Lineage:
    found = history.read(cluster.node("a"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "function", "code"),
    [
        (rejoin_steps.Export, "export", ExitCode.REFUSED),
        (rejoin_steps.Cut, "truncate", ExitCode.REFUSED),
        (rejoin_steps.Cut, "truncate", ExitCode.FAILED),
    ],
)
def test_a_node_whose_data_prevent_an_export_or_that_could_not_be_cut_is_quarantined(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Step],
    function: str,
    code: ExitCode,
) -> None:
    fails_to(cluster, monkeypatch, kind, function, code)
    assert Condition.QUARANTINED is known(cluster).condition
    assert "No space left on device" in known(cluster).detail


def test_a_node_whose_export_failed_for_another_reason_may_be_exported_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data are as they were, and its start-up check finds that it has diverged."""
    fails_to(cluster, monkeypatch, rejoin_steps.Export, "export", ExitCode.FAILED)
    assert history.read(cluster.node("a")) is None


def fails_to(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Step],
    function: str,
    code: ExitCode,
) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        raise OperatorError("it can't be done", "No space left on device", exit_code=code)

    monkeypatch.setattr(datafs, function, fail)
    chosen = step(kind, after=COMMON, folder=str(cluster.var_directory / "tail"), private=5)
    with pytest.raises(OperatorError, match="it can't be done"):
        chosen.do(context(cluster))


def test_blobs_that_could_not_be_exported_are_reported(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cluster.var_directory / "tail"
    done = Export(
        folder,
        COMMON,
        None,
        None,
        transactions=1,
        objects=3,
        new=3,
        changed=0,
        bytes=100,
        blobs=1,
        missing_blobs=2,
        notable=(),
    )
    monkeypatch.setattr(datafs, "export", lambda *_arguments, **_options: done)
    said: list[str] = []
    figures = step(rejoin_steps.Export, after=COMMON, folder=str(folder), private=1).do(
        dataclasses.replace(context(cluster), say=said.append)
    )
    assert 2 == figures["missing_blobs"]
    assert "blob files that were not there, and are not in the export: 2" in said


def test_an_export_that_is_there_already_is_not_made_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datafs, "export", None)
    folder = cluster.var_directory / "tail"
    folder.mkdir(parents=True)
    figures = step(rejoin_steps.Export, after=COMMON, folder=str(folder), private=5).do(
        context(cluster)
    )
    assert {"exported_to": str(folder), "exported_objects": [], "lost_transactions": 5} == figures


@pytest.mark.parametrize("verified", [None, EARLIER])
def test_only_what_follows_the_last_comparison_is_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, verified: str | None
) -> None:
    """So the time of a rejoin does not grow with the data."""
    asked = []

    def compare(*arguments: object, **_options: object) -> Comparison:
        asked.append(arguments[3])
        return FOUND

    monkeypatch.setattr(datafs, "compare", compare)
    present = context(cluster)
    planned = divergence.compare(
        present.host, cluster.node("a"), cluster.node("b"), verified, None, damaged=True
    )
    step(rejoin_steps.Compare, against="b", cut_after=COMMON, verified=verified).do(present)
    assert (FOUND, "") == planned
    assert [verified, verified] == asked


@pytest.mark.parametrize(
    ("found", "cut_after", "fits"),
    [
        (FOUND, COMMON, True),
        (FOUND, "0400000000000004", False),
        (dataclasses.replace(FOUND, conflicting=1), COMMON, False),
        (FOUND, None, False),
        (dataclasses.replace(FOUND, relation=Relation.BEHIND), None, True),
    ],
)
def test_a_plan_that_no_longer_fits_the_files_goes_no_further(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    found: Comparison,
    cut_after: str | None,
    fits: bool,
) -> None:
    monkeypatch.setattr(datafs, "compare", lambda *_arguments, **_options: found)
    wanted = step(rejoin_steps.Compare, against="b", cut_after=cut_after)
    if fits:
        assert COMMON == wanted.do(context(cluster))["common"]
    else:
        with pytest.raises(OperatorError, match="changed since it was looked at"):
            wanted.do(context(cluster))


def test_a_node_that_joins_is_verified_up_to_the_common_transaction_and_was_not_writable_since(
    cluster: Cluster,
) -> None:
    history.mark(cluster.node("a"), 1, Condition.DIVERGED, "for the test")
    compared: Figures = {"common": COMMON, "common_digest": "dd"}
    step(rejoin_steps.Mark, against="b", condition="ok", detail="").do(
        context(cluster, {("rejoin-compare", "a"): compared})
    )
    found = known(cluster)
    assert (COMMON, "dd", "b", 2) == (found.verified_tid, found.digest, found.against, found.epoch)
    assert (False, Condition.OK) == (found.was_writable, found.condition)


def test_a_node_that_needs_a_clone_says_why(cluster: Cluster) -> None:
    data_fs(cluster.node("a")).write_bytes(b"FS21")
    step(rejoin_steps.Mark, against="b", condition="needs-seeding", detail="unrelated").do(
        context(cluster)
    )
    assert (Condition.NEEDS_SEEDING, "unrelated") == (
        known(cluster).condition,
        known(cluster).detail,
    )
