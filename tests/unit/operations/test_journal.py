"""The journal keeps every entry that was acknowledged, whatever happens to its writer."""

from __future__ import annotations

import dataclasses
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_world import PLAN, cluster

from indico_zodbrepl.cli import App, node_steps, operate
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import verbs
from indico_zodbrepl.host.epochs import Raised
from indico_zodbrepl.host.forcing import Forcing
from indico_zodbrepl.operations import journal, operation
from indico_zodbrepl.operations.model import Loss
from indico_zodbrepl.operations.operation import Outcome


@pytest.fixture
def of(tmp_path: Path) -> Cluster:
    return cluster(tmp_path)


def entry(number: int = 0) -> operation.Operation:
    return operation.new("test", PLAN, "somebody", 1795172767.123 + number)


def test_of_several_lines_of_an_operation_the_last_one_counts(of: Cluster) -> None:
    begun = entry()
    ended = dataclasses.replace(begun, outcome=Outcome.DONE, ended=begun.began + 2)
    for each in (begun, entry(1), ended):
        journal.append(of, each)
    assert ([ended, entry(1)], []) == journal.read(of)


def test_two_operations_of_one_kind_in_one_millisecond_are_two_entries(of: Cluster) -> None:
    first, second = (
        operation.new("test", PLAN, "somebody", 1795172767.1234 + seconds)
        for seconds in (0, 0.0001)
    )
    journal.append(of, first)
    journal.append(of, second)
    assert [first, second] == journal.read(of)[0]


def test_without_a_file_there_are_no_entries(of: Cluster) -> None:
    assert ([], []) == journal.read(of)


def test_a_torn_last_line_is_reported_and_the_next_entry_is_whole(of: Cluster) -> None:
    journal.append(of, entry())
    path = Layout(of).journal
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    entries, notices = journal.read(of)
    assert [entry()] == entries
    assert [f"{path}:2: torn; the program was killed while it wrote this line"] == notices
    journal.append(of, entry(1))
    entries, notices = journal.read(of)
    assert [entry(), entry(1)] == entries
    assert len(notices) == 1


def test_any_length_of_a_torn_line_loses_that_line_alone(of: Cluster) -> None:
    journal.append(of, entry())
    whole = Layout(of).journal.read_bytes()
    for length in range(1, len(whole), 97):
        Layout(of).journal.write_bytes(whole + whole[:length])
        journal.append(of, entry(1))
        assert [entry(), entry(1)] == journal.read(of)[0]


def test_entries_of_many_writers_at_once_are_all_there(of: Cluster) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: journal.append(of, entry(number)), range(40)))
    entries, notices = journal.read(of)
    assert ({entry(number).identifier for number in range(40)}, []) == (
        {each.identifier for each in entries},
        notices,
    )


def test_a_step_that_fails_leaves_an_entry_with_the_reason(
    of: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(App, "cluster", of)
    app = App(tmp_path / "cluster.conf", Installation(tmp_path))
    done = CliRunner().invoke(node_steps.pause_writes, ["a", "--reason", "a look"], obj=app)
    assert isinstance(done.exception, OperatorError)
    [left], _notices = journal.read(of)
    assert ("node-pause-writes", "a", "a look", Outcome.STOPPED) == (
        left.plan.operation,
        left.plan.target,
        left.plan.reason,
        left.outcome,
    )
    assert done.exception.notice in left.remark


def test_a_step_whose_process_is_killed_leaves_an_entry(of: Cluster) -> None:
    child = os.fork()
    if not child:
        with journal.journaled(of, "node-promote", "b", "a is gone", 2):
            os.kill(os.getpid(), signal.SIGKILL)
    assert signal.SIGKILL == os.WTERMSIG(os.waitpid(child, 0)[1])
    [left], _notices = journal.read(of)
    assert ("node-promote", "b", 2, Outcome.RUNNING) == (
        left.plan.operation,
        left.plan.target,
        left.plan.epoch,
        left.outcome,
    )


def test_a_step_that_is_done_leaves_one_entry_with_what_it_tells(of: Cluster) -> None:
    with journal.journaled(of, "node-fence", "a", "it is frozen") as told:
        told.figures, told.remark = {"killed": [7]}, "supervisor was silent"
    [left], _notices = journal.read(of)
    assert ("node-fence", "a", "it is frozen") == (
        left.plan.operation,
        left.plan.target,
        left.plan.reason,
    )
    assert (Outcome.DONE, {"killed": [7]}, "supervisor was silent") == (
        left.outcome,
        left.figures,
        left.remark,
    )


def test_what_has_to_be_done_is_done_without_a_journal(of: Cluster) -> None:
    Layout(of).journal.mkdir()
    told: list[str] = []
    done = []
    with journal.journaled(of, "down", "test", "", otherwise=told.append):
        done.append("down")
    assert ["down"] == done
    assert 2 == len([each for each in told if each.startswith("the journal can't be written: ")])
    with (
        pytest.raises(OperatorError, match="the journal can't be written"),
        journal.journaled(of, "pack", "test", ""),
    ):
        done.append("pack")
    assert ["down"] == done


def stop_while_the_disk_goes(of: Cluster, error: OperatorError | None = None) -> None:
    """A step that begins, and whose end can't be journaled."""
    with journal.journaled(of, "node-stop", "b", ""):
        Layout(of).journal.unlink()
        Layout(of).journal.mkdir()
        if error is not None:
            raise error


def test_what_is_done_is_not_told_as_failed_when_only_its_end_can_t_be_journaled(
    of: Cluster,
) -> None:
    with pytest.raises(OperatorError, match="node-stop b is done, but the journal"):
        stop_while_the_disk_goes(of)


def test_why_a_step_failed_is_reported_although_that_can_t_be_journaled(of: Cluster) -> None:
    with pytest.raises(OperatorError, match="b is frozen"):
        stop_while_the_disk_goes(of, OperatorError("b is frozen"))


@pytest.mark.parametrize("refused", [True, False])
def test_a_forced_start_leaves_one_entry_also_when_it_is_refused(
    of: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    def force_start(*_: object, **_options: object) -> Forcing:
        if refused:
            raise OperatorError("node a can't be forced", "node b takes writes")
        return Forcing(3, 2, Raised(("the control host",), {}))

    Layout(of).run.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(verbs, "force_start", force_start)
    monkeypatch.setattr(App, "cluster", of)
    done = CliRunner().invoke(
        node_steps.start,
        ["a", "--force", "--reason", "b burnt down"],
        obj=App(tmp_path / "cluster.conf", Installation(tmp_path)),
    )
    assert refused is isinstance(done.exception, OperatorError), done.output
    [left], _notices = journal.read(of)
    assert ("force", "a", "b burnt down") == (
        left.plan.operation,
        left.plan.target,
        left.plan.reason,
    )
    assert ((Outcome.STOPPED, 0) if refused else (Outcome.DONE, 3)) == (
        left.outcome,
        left.plan.epoch,
    )
    assert ("node a can't be forced" in left.remark) is refused


def test_the_actor_is_whom_the_admin_page_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "anna")
    monkeypatch.setenv(operation.ACTOR_VARIABLE, "alice (admin page)")
    assert "alice (admin page)" == operation.actor()


def test_the_actor_is_who_called_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "anna")
    assert "anna" == operation.actor()


def test_a_journal_that_can_t_be_written_is_reported(of: Cluster) -> None:
    os.mkdir(Layout(of).journal)
    with pytest.raises(OperatorError, match="the journal can't be written"):
        journal.append(of, entry())


def test_the_table_does_not_say_that_nothing_was_lost_when_nobody_knows(
    of: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, loss in enumerate((None, Loss("a", None, None, False, None, "perhaps something"))):
        begun = entry(number)
        journal.append(
            of,
            dataclasses.replace(
                begun, outcome=Outcome.DONE, plan=dataclasses.replace(begun.plan, loss=loss)
            ),
        )
    monkeypatch.setattr(App, "cluster", of)
    app = App(tmp_path / "cluster.conf", Installation(tmp_path))
    shown = CliRunner().invoke(operate.journal, obj=app).output
    assert ["0", "?"] == [
        line.split(" done ")[1].split()[0] for line in shown.splitlines() if " done " in line
    ]
