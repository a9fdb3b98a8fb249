"""The logs of other hosts, as their agents send them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import ADDRESSES, RunningAgent, give, running
from test_agent import asked

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import log_files
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.interface import HostAwayError, host_of
from indico_zodbrepl.host.logs_interface import LogLine, Logs, LogWarnings

NOON = 1795176000.0
LINES = """\
2026-11-20 12:00:01 UTC INFO started
2026-11-20 12:00:02 UTC ERROR no login with password=hunter2
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RunningAgent]:
    with socket.create_server((ADDRESSES["one"], 0)) as taken:
        port = int(taken.getsockname()[1])
    with running(tmp_path, port) as started:
        for cluster, program in ((started.cluster, "node-a"), (started.caller, "node-b")):
            folder = Layout(cluster).log
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{program}.log").write_text(LINES)
        yield started


@pytest.fixture
def logs(agent: RunningAgent) -> Logs:
    """The logs of both hosts, as host two reaches them."""
    return host_of(agent.caller).logs()


def test_the_programs_of_all_hosts_are_listed(logs: Logs) -> None:
    assert {"one": ["node-a"], "two": ["node-b"]} == logs.every()


def test_lines_of_another_host_are_chosen_there_and_masked(logs: Logs, agent: RunningAgent) -> None:
    found = logs.part("one", "node-a", text="LOGIN", warnings=True)
    assert ("2026-11-20 12:00:02 UTC ERROR no login with password=…",) == found.lines
    assert Layout(agent.cluster).program_log("node-a") == found.path
    assert 1 == len(logs.part("one", "node-a", most=1).lines)


def test_the_warnings_of_all_hosts_name_them(logs: Logs) -> None:
    def line(program: str, host: str) -> LogWarnings:
        text = "ERROR no login with password=…"
        return LogWarnings((LogLine(NOON + 2, program, text, host),), ())

    assert {"one": line("node-a", "one"), "two": line("node-b", "two")} == logs.every_warning(
        NOON, NOON + 60
    )


@pytest.mark.parametrize(("host", "program"), [("one", "node-a"), ("two", "node-b")])
def test_a_whole_log_is_sent_in_blocks_and_masked(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, host: str, program: str
) -> None:
    monkeypatch.setattr(log_files, "SENT_CHARACTERS", 10)
    parts = list(logs.whole(host, program))
    assert LINES.replace("hunter2", "…") == b"".join(parts).decode()


@pytest.mark.parametrize("program", ["node-b", "../cluster", "x/../node-a", ""])
def test_only_logs_of_programs_are_sent(logs: Logs, program: str) -> None:
    with pytest.raises(OperatorError):
        logs.part("one", program)
    with pytest.raises(OperatorError):
        list(logs.whole("one", program))


def test_a_log_that_cannot_be_read_is_told(logs: Logs, agent: RunningAgent) -> None:
    Layout(agent.cluster).program_log("broken").mkdir()
    for read in (logs.part, lambda *of: list(logs.whole(*of))):
        with pytest.raises(OperatorError) as error:
            read("one", "broken")
        assert "Is a directory" in error.value.detail


def test_a_monitor_reads_no_logs(agent: RunningAgent, tmp_path: Path) -> None:
    give(Layout(agent.cluster).tls, tmp_path / "other", "somebody", Role.MONITOR)
    for method in ("logs.part", "logs.programs", "logs.warnings"):
        assert 403 == asked(agent, tmp_path / "other", Role.MONITOR, method)[0]


def test_a_host_that_is_away_is_named_and_the_others_are_listed(tmp_path: Path) -> None:
    with socket.create_server((ADDRESSES["one"], 0)) as taken:
        port = int(taken.getsockname()[1])
    with running(tmp_path, port) as started:
        caller = started.caller
    found = host_of(caller).logs().every()
    assert found["two"] == []
    assert isinstance(found["one"], HostAwayError)
