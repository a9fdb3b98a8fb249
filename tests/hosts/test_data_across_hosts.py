"""Commands about data, each typed on another host than the one of the node."""

from __future__ import annotations

import json
import re

import pytest
from counted import Counted, exported, held
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode


@pytest.fixture(scope="module")
def three(shared_lab: Lab) -> Three:
    """Three hosts with their nodes; a is the primary, on h1.  Each test leaves them healthy."""
    found = Three(shared_lab, "tls")
    found.agents()
    found.zodbrepl("h1", "up")
    return found


def is_healthy(three: Three) -> bool:
    return bool(three.zodbrepl("h2", "status", code=None).returncode == 0)


def data_of(three: Three, node: str) -> bytes:
    return (three.lab[three.host_of(node)].folder / node / "Data.fs").read_bytes()


def test_down_names_a_host_that_does_not_answer_and_stops_the_rest(three: Three) -> None:
    three.lab.network.isolate("h3")
    failed = three.zodbrepl("h2", "down", code=int(ExitCode.TIMED_OUT))
    assert "host h3 does not answer: its programs were not stopped" in failed.stderr
    assert "on h3, unless it is off: " in failed.stderr
    three.lab.network.heal()
    assert {data_of(three, "a")} == {data_of(three, "b")}
    programs = {each["name"]: each["program"] for each in three.status("h3")["nodes"]}
    assert (None, None) == (programs["a"], programs["b"]), "no supervisord runs there"
    assert "RUNNING" == programs["c"]["state"]
    three.zodbrepl("h3", "up")


def end_supervisord(three: Three, host: str) -> None:
    """Kill the supervisord of a host, which leaves its programs running."""
    pid = (three.lab[host].folder / "var/run/supervisord.pid").read_text().strip()
    three.lab[host].run("kill", "-9", pid)


def test_down_lets_every_node_have_what_was_acknowledged(three: Three) -> None:
    end_supervisord(three, "h3")
    with Counted(three, "h3") as writer:
        foreseen = three.zodbrepl("h2", "down", "--dry-run").stdout
        names = ("admin", "node-a", "node-b", "node-c", "tunnel-h3")
        order = [re.search(f"stop (process [0-9]+ of )?{name}", foreseen) for name in names]
        found = [each.start() for each in order if each is not None]
        assert (len(names), sorted(found)) == (len(found), found), foreseen
        three.zodbrepl("h2", "down")
        acknowledged = set(writer.acknowledged)
    assert {data_of(three, "a")} == {data_of(three, node) for node in ("b", "c")}
    assert acknowledged <= held(three, "b")
    three.zodbrepl("h3", "up")
    assert wait_until(lambda: is_healthy(three), later())


def backups_on(three: Three, host: str) -> list[str]:
    """Return the names of the pieces in a host's folder of backups."""
    folder = three.lab[host].folder / "kept"
    return sorted(each.name for each in folder.glob("*fs"))


def folder_on(three: Three, host: str) -> str:
    return f"{host}:{three.lab.srv}/kept"


def test_a_node_is_backed_up_to_a_folder_of_another_host_by_a_command_on_a_third(
    three: Three,
) -> None:
    to = ("--to", folder_on(three, "h3"))
    with Counted(three, "h1", 1000):
        full = three.zodbrepl("h2", "backup", "a", *to).stdout
    assert "full backup" in full
    more = three.zodbrepl("h2", "backup", "a", *to).stdout
    assert "incremental backup" in more
    assert "nothing new since the last backup" in three.zodbrepl("h1", "backup", "b", *to).stdout
    kept = three.lab["h3"].folder / "kept"
    names = backups_on(three, "h3")
    assert [".deltafs", ".fs"] == sorted(name[name.index(".") :] for name in names)
    content = b"".join((kept / name).read_bytes() for name in names)
    assert content == data_of(three, "a")
    listed = three.zodbrepl("h2", "backup", *to, "--full", "--keep-days", "1").stdout
    assert "removed: no backup, none is too old" in listed


def test_a_backup_on_another_host_is_restored_when_all_nodes_are_lost(three: Three) -> None:
    source = ("--from", folder_on(three, "h3"))
    with Counted(three, "h1", 2000) as writer:
        kept = set(writer.acknowledged)
        three.zodbrepl("h2", "backup", "a", "--to", folder_on(three, "h3"))
        writer.see_more()
    refused = three.zodbrepl("h2", "restore", "a", *source, code=int(ExitCode.REFUSED))
    assert "a: has" in refused.stdout
    for node in ("b", "c"):
        three.zodbrepl("h1", "node", "stop", node)
        (three.lab[three.host_of(node)].folder / node / "Data.fs").unlink()
    before = held(three, "a")
    done = three.zodbrepl("h2", "restore", "a", *source, "--reason", "all is lost").stdout
    assert "that the backup lacks" in done
    assert "restore of a is done" in done
    found = held(three, "a")
    assert kept <= found < before
    assert exported(three) > 0
    for node, other in (("b", "h3"), ("c", "h1")):
        three.zodbrepl(other, "clone", node, "--reason", "its data were lost")
    assert wait_until(lambda: is_healthy(three), later())


def test_each_node_is_packed_on_its_host(three: Three) -> None:
    said = three.zodbrepl("h2", "pack", "--days", "1", "--reason", "it grew").stdout
    assert said.index("packed b in") < said.index("packed c in") < said.index("packed a in"), said
    for host, node in (("h1", "a"), ("h3", "c")):
        assert f'"call":"pack","about":"{node}"' in actions(three, host)


def actions(three: Three, host: str) -> str:
    """Return the log of what the agent of a host did."""
    return (three.lab[host].folder / "var/log/agent.jsonl").read_text()


def test_a_node_of_another_host_is_read_and_the_admin_page_shows_the_result(three: Three) -> None:
    found = json.loads(three.zodbrepl("h1", "stats", "--node", "b", "--json").stdout)
    assert ("b", "file") == (found["node"], found["kind"])
    assert found["objects"] > 0
    kept = json.loads((three.lab["h3"].folder / "var/statistics.json").read_text())
    assert "b" == kept["where"]["node"]
    of_primary = json.loads(three.zodbrepl("h2", "stats", "--json").stdout)
    assert "a" == of_primary["node"]


def test_histories_are_compared_and_the_journal_is_shown_on_any_host(three: Three) -> None:
    assert wait_until(lambda: is_healthy(three), later())
    said = three.zodbrepl("h3", "history").stdout
    assert "b" in said
    journal = three.zodbrepl("h1", "journal").stdout
    assert "restore a" in journal
    assert "pack three" in journal


def test_what_a_restore_exported_is_recovered_by_a_command_on_another_host(three: Three) -> None:
    export = next(three.lab["h1"].folder.glob("var/lost-tails/*")).name
    said = three.zodbrepl("h3", "recover", export, "--all", "--dry-run", code=None)
    assert " can be recovered, 0 conflict" in said.stdout, said.stderr


def test_an_unfinished_conversion_on_another_host_is_found(three: Three) -> None:
    note = three.lab["h3"].folder / "var/conversion.json"
    note.write_text(
        json.dumps({"source": "/old/cluster.conf", "command": "zodbrepl convert", "began": 1.0})
    )
    try:
        refused = three.zodbrepl("h2", "up", code=int(ExitCode.REFUSED)).stderr
    finally:
        note.unlink()
    assert "host h3: a conversion into this cluster has not ended" in refused


def test_accounts_of_the_admin_page_are_managed_on_its_host(three: Three) -> None:
    add = ("admin", "user", "add", "ada", "--password-file", "/dev/null")
    refused = three.zodbrepl("h1", *add, code=int(ExitCode.REFUSED)).stderr
    assert "type the command on host h3" in refused
