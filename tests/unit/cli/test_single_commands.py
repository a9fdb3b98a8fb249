"""Commands of one step: their plans, what they print and what the journal keeps."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from indico_zodbrepl.cli import main
from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import lifecycle, ports
from indico_zodbrepl.host.epochs import Raised
from indico_zodbrepl.host.fencing import Fenced
from indico_zodbrepl.host.forcing import Forcing
from indico_zodbrepl.host.interface import DryRun
from indico_zodbrepl.host.role_changes import Changed
from indico_zodbrepl.operations import journal, model, single
from indico_zodbrepl.operations.operation import Outcome

ROOT = Path(__file__).parents[3]
UNCHANGED = "This was a dry run: nothing was changed."
FOLLOWING = NodeState("test", "b", Role.SECONDARY, "a", 2)
TEXT = """
name test
backend zrs
var-directory {home}/var
<node a>
  host 127.0.0.1
  role primary
  data-directory {home}/a
  storage-port 2
  replication-port 3
</node>
<node b>
  host 127.0.0.1
  role secondary
  upstream a
  data-directory {home}/b
  storage-port 4
  replication-port 5
</node>
<indico one>
  port 6
</indico>
<admin>
  port 7
</admin>
"""


class Host:
    """Does nothing; notes what it was asked for, and returns what it was given."""

    def __init__(self, returns: Any = None, checked: DryRun | None = None) -> None:
        self.returns = returns
        self.checked = checked
        self.asked: list[tuple[str, tuple[object, ...], dict[str, object]]] = []

    def dry_run(self, verb: str, name: str, **arguments: object) -> DryRun:
        self.asked.append((verb, (name,), arguments))
        assert self.checked is not None, "a command that was to be done was only tried"
        return self.checked

    def __getattr__(self, verb: str) -> Any:
        def do(*names: object, **options: object) -> Any:
            say = options.pop("progress", None)
            if callable(say):
                say("it goes on")
            self.asked.append((verb, names, options))
            if isinstance(self.returns, Exception):
                raise self.returns
            return self.returns

        return do


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("ZODBREPL_HOME", str(ROOT))
    path = tmp_path / "cluster.conf"
    path.write_text(TEXT.format(home=tmp_path))
    return load(path, ROOT)


def call(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, host: Host, *arguments: str) -> Result:
    for module in (model, single):
        monkeypatch.setattr(module, "host_of", lambda *_: host)
    return CliRunner().invoke(main, ["-c", str(cluster.source), *arguments])


def everything_in(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


ASSIGN = ("node", "assign", "b", "--role", "secondary", "--upstream", "a", "--epoch", "2")
FOLLOW = ("node", "follow", "b", "--upstream", "a", "--epoch", "2")
PROGRESS = "   0.0 s  it goes on\n"
BY_FORCE = "node b is the primary of epoch 3, by force; others follow it after: "
SILENT = "supervisor was silent"


@dataclasses.dataclass(frozen=True)
class Case:
    """A command that is done.

    Attributes:
        returns: what the verb returns.
        asked: the verb, its names and its options.
        stdout, stderr: what is printed; {rejoin} is a command.
        figures, remark, epoch: of the entry in the journal.
        checked: what the checks of a dry run need besides the name.
    """

    typed: tuple[str, ...]
    returns: Any
    asked: tuple[str, tuple[object, ...], dict[str, object]]
    stdout: str
    entry: str
    figures: dict[str, object] = dataclasses.field(default_factory=dict)
    stderr: str = ""
    remark: str = ""
    epoch: int = 0
    checked: dict[str, object] = dataclasses.field(default_factory=dict)


CASES = [
    Case(("node", "start", "b"), True, ("start_node", ("b",), {}), PROGRESS, "node-start"),
    Case(
        ("node", "start", "b"),
        False,
        ("start_node", ("b",), {}),
        PROGRESS + "node b runs already\n",
        "node-start",
        remark="node b runs already",
    ),
    Case(
        ("node", "start", "b", "--force"),
        Forcing(3, 2, Raised(("the control host",), {"Indico instance one": "no room"})),
        ("force_start", ("b",), {"reason": "a test", "actor": "anna"}),
        PROGRESS + BY_FORCE + "{rejoin}\n",
        "force",
        {"seen": 2, "raised": ["the control host"], "not_raised": ["Indico instance one"]},
        stderr="Indico instance one has no record of it: no room\n",
        remark="Indico instance one has no record of it: no room",
        epoch=3,
    ),
    Case(("node", "stop", "b"), True, ("stop_node", ("b",), {}), PROGRESS, "node-stop"),
    Case(
        ("node", "stop", "b"),
        False,
        ("stop_node", ("b",), {}),
        PROGRESS + "node b does not run\n",
        "node-stop",
        remark="node b does not run",
    ),
    *(
        Case(
            ("node", "fence", "b"),
            fenced,
            ("fence", ("b",), {}),
            f"node b is fenced: {how}\n",
            "node-fence",
            {"killed": list(fenced.killed)},
            stderr=fenced.remark and f"{fenced.remark}\n",
            remark=fenced.remark,
        )
        for fenced, how in (
            (Fenced((7, 8), SILENT, was_wanted=True), "killed 7, 8"),
            (
                Fenced((), "", was_wanted=True),
                "it has stopped, and supervisor no longer runs it",
            ),
            (Fenced((), "", was_wanted=False), "it did not run"),
        )
    ),
    Case(
        ASSIGN,
        FOLLOWING,
        ("assign", ("b",), {"role": Role.SECONDARY, "upstream": "a", "epoch": 2}),
        "node b is to be secondary in epoch 2, following a\n",
        "node-assign",
        {"role": "secondary", "upstream": "a", "epoch": 2},
        checked={"role": "secondary", "upstream": "a", "epoch": 2},
    ),
    Case(
        ("node", "assign", "b", "--role", "primary", "--epoch", "2"),
        NodeState("test", "b", Role.PRIMARY, None, 2),
        ("assign", ("b",), {"role": Role.PRIMARY, "upstream": None, "epoch": 2}),
        "node b is to be primary in epoch 2\n",
        "node-assign",
        {"role": "primary", "upstream": None, "epoch": 2},
        checked={"role": "primary", "upstream": None, "epoch": 2},
    ),
    Case(
        ("node", "pause-writes", "a", "--seconds", "7.5"),
        "040d2a60b0c2c3ee",
        ("pause_writes", ("a", 7.5), {}),
        "commits on node a wait for 7.5 s; its last transaction is 040d2a60b0c2c3ee\n",
        "node-pause-writes",
        {"seconds": 7.5, "last_tid": "040d2a60b0c2c3ee"},
        checked={"seconds": 7.5},
    ),
    Case(
        ("node", "resume-writes", "a"),
        None,
        ("resume_writes", ("a",), {}),
        "node a takes commits again\n",
        "node-resume-writes",
    ),
    Case(
        ("node", "promote", "b", "--epoch", "2"),
        Changed(True, ("a was not told", "c was fenced")),
        ("promote", ("b",), {"epoch": 2, "reason": "a test"}),
        PROGRESS + "node b is the primary of epoch 2\n",
        "node-promote",
        {"in_place": True},
        stderr="a was not told\nc was fenced\n",
        remark="a was not told; c was fenced",
        epoch=2,
        checked={"epoch": 2},
    ),
    Case(
        FOLLOW,
        Changed(False, ()),
        ("follow", ("b",), {"upstream": "a", "epoch": 2}),
        PROGRESS + "node b follows a in epoch 2; its server was started for it\n",
        "node-follow",
        {"upstream": "a", "epoch": 2, "in_place": False},
        checked={"upstream": "a", "epoch": 2},
    ),
    Case(
        ("node", "restart-client", "one"),
        None,
        ("restart_instance", ("one",), {}),
        PROGRESS,
        "restart-client",
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_a_command_is_done_told_and_journaled(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.setenv("SUDO_USER", "anna")
    host = Host(case.returns)
    result = call(cluster, monkeypatch, host, *case.typed, "--reason", "a test")
    rejoin = f"bin/zodbrepl -c {cluster.source} rejoin NODE"
    stdout = re.sub(r"^ *\d+\.\d s", "   0.0 s", result.stdout)
    assert (case.stdout.replace("{rejoin}", rejoin), case.stderr) == (stdout, result.stderr)
    assert [case.asked] == host.asked
    [entry], _notices = journal.read(cluster)
    assert (case.entry, case.typed[2], "a test", case.epoch) == (
        entry.plan.operation,
        entry.plan.target,
        entry.plan.reason,
        entry.plan.epoch,
    )
    assert (case.figures, case.remark, Outcome.DONE) == (
        entry.figures,
        entry.remark,
        entry.outcome,
    )
    assert not (cluster.var_directory / "operations").exists()


ALL = Case(("up",), [], ("up", ("test",), {}), "", "up")
DRY = [*CASES, ALL, dataclasses.replace(ALL, typed=("down",), asked=("down", (), {}), entry="down")]


@pytest.mark.parametrize("case", DRY)
def test_a_dry_run_prints_the_plan_and_makes_the_checks_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    host = Host(checked=DryRun(("it runs",), ("do this", "do that"), ("one is away",)))
    before = everything_in(cluster.source.parent)
    result = call(cluster, monkeypatch, host, *case.typed, "--reason", "a test", "--dry-run")
    assert 0 == result.exit_code, result.output
    name = case.typed[2] if len(case.typed) > 2 else "test"
    assert [(case.asked[0], (name,), case.checked)] == host.asked
    lines = result.stdout.splitlines()
    epoch = ", epoch 2" if case.entry == "node-promote" else ""
    assert [f"{case.entry.upper()} of {name}{epoch}", "reason: a test", "", "Found"] == lines[:4]
    assert ["  ok       it runs", "  WARNING  one is away", "", "Steps"] == lines[4:8]
    assert lines[8].startswith("   1. ")
    assert ["      does     do this", "               do that", "", UNCHANGED] == lines[9:]
    assert before == everything_in(cluster.source.parent)


@pytest.mark.parametrize("case", DRY)
def test_a_dry_run_says_if_there_is_nothing_to_do(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    result = call(cluster, monkeypatch, Host(checked=DryRun(("done",))), *case.typed, "--dry-run")
    ending = ["  ok       done", "", "There is nothing to do.", "", UNCHANGED]
    assert ending == result.stdout.splitlines()[-5:]


@pytest.mark.parametrize(
    ("typed", "name", "figures"),
    [
        (ASSIGN, "node-assign", {"role": "secondary", "upstream": "a", "epoch": 2}),
        (FOLLOW, "node-follow", {"upstream": "a", "epoch": 2}),
        (("node", "fence", "b"), "node-fence", {}),
    ],
)
def test_a_command_that_fails_is_journaled_with_what_it_was_to_do(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    typed: tuple[str, ...],
    name: str,
    figures: dict[str, object],
) -> None:
    refusal = OperatorError("b is frozen", "why", "what to do", ExitCode.REFUSED)
    result = call(cluster, monkeypatch, Host(refusal), *typed)
    assert (ExitCode.REFUSED, True) == (result.exit_code, "NOTICE: b is frozen" in result.stderr)
    [entry], _notices = journal.read(cluster)
    assert (name, figures, Outcome.STOPPED) == (
        entry.plan.operation,
        entry.figures,
        entry.outcome,
    )
    assert "b is frozen" in entry.remark


def test_a_forced_start_needs_a_reason(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    result = call(cluster, monkeypatch, host, "node", "start", "b", "--force")
    assert (2, True, []) == (
        result.exit_code,
        "--force needs --reason" in result.stderr,
        host.asked,
    )


@pytest.mark.parametrize(
    ("command", "figure", "programs", "nothing"),
    [
        ("up", "started", ["node-a", "admin"], ""),
        ("up", "started", [], "everything is running\n"),
        ("down", "ended", ["node-a", "admin"], ""),
        ("down", "ended", [], "nothing is running\n"),
    ],
)
def test_up_and_down_are_journaled(  # noqa: PLR0917 - what is expected of each
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    figure: str,
    programs: list[str],
    nothing: str,
) -> None:
    monkeypatch.setattr(lifecycle, "check", lambda *_: None)
    cluster.var_directory.mkdir()
    result = call(cluster, monkeypatch, Host(programs), command, "--reason", "a new disk")
    assert 0 == result.exit_code, result.output
    assert re.match(rf" *\d+\.\d s  it goes on\n{nothing}", result.stdout)
    [entry], _notices = journal.read(cluster)
    assert (command, "test", "a new disk", {figure: programs}) == (
        entry.plan.operation,
        entry.plan.target,
        entry.plan.reason,
        entry.figures,
    )


def test_down_of_a_cluster_that_was_never_up_leaves_no_journal(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = call(cluster, monkeypatch, Host([]), "down")
    assert (0, False) == (result.exit_code, cluster.var_directory.exists())


@pytest.fixture
def unstarted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster that was never started, on a machine on which nothing is installed or listens."""
    monkeypatch.setattr(Installation, "check", lambda _: None)
    monkeypatch.setattr(ports, "listening", frozenset)
    monkeypatch.setattr(ports, "check_free", lambda *_: None)
    return cluster


def tried(cluster: Cluster, *arguments: str) -> str:
    """What a dry run prints, without its line breaks; it changes nothing."""
    before = everything_in(cluster.source.parent)
    result = CliRunner().invoke(main, ["-c", str(cluster.source), *arguments, "--dry-run"])
    assert (0, before) == (result.exit_code, everything_in(cluster.source.parent)), result.output
    assert result.stdout.endswith(f"\n{UNCHANGED}\n")
    return " ".join(result.stdout.split())


def test_up_before_anything_was_started(unstarted: Cluster) -> None:
    told = tried(unstarted, "up")
    wanted = [
        "state.json: primary in epoch 1",
        "state.json: secondary in epoch 1, following a",
        "supervisord.conf",
        "start supervisord",
        "to epoch 1, primary a",
        "start node-a",
        "start node-b",
        "start indico-one",
        "start admin",
    ]
    places = [told.index(each) for each in wanted]
    assert places == sorted(places)


def test_up_tells_why_a_node_would_not_start(unstarted: Cluster) -> None:
    node = unstarted.node("b")
    node.data_directory.mkdir()
    (node.data_directory / "state.json").write_text("damaged")
    told = tried(unstarted, "up")
    assert "WARNING node-b would not start: the state file of node b can't be used" in told
    assert "start node-b" not in told.partition("Steps")[2]


def test_commands_before_anything_was_started(unstarted: Cluster) -> None:
    assert "There is nothing to do." in tried(unstarted, "down")
    told = tried(unstarted, "node", "assign", "a", "--role", "primary", "--epoch", "1")
    assert "state.json: primary in epoch 1" in told
    told = tried(unstarted, "node", "start", "b", "--force")
    assert "the highest known epoch is 1" in told
    assert "raise the records of the control host, Indico instance one to epoch 2" in told
    assert "has no process" in tried(unstarted, "node", "fence", "a")


def test_watch_tells_what_it_would_do(unstarted: Cluster) -> None:
    told = tried(unstarted, "watch")
    assert "1. Check the cluster each second until stopped" in told
    assert f"remember what is seen in {unstarted.var_directory}/watch" in told
    assert "compare followers with the primary" in told
