"""What Indico needs of a storage, of each storage, by a real Indico on a real cluster.

The tests of one storage share its cluster, and each leaves it as it needs to be for the others.
"""

from __future__ import annotations

import json

import pytest
from site_under_test import (
    CATEGORIES,
    CONFERENCES,
    CONTRIBUTIONS,
    USERS,
    WRITERS,
    Site,
)

from indico_zodbrepl.backends import limit
from indico_zodbrepl.bench.suites.in_app import CACHES, TESTS, WRITE
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.operations import journal

COMMITS = 6  # of each writer


def test_what_an_indico_has_is_there_and_whole(site: Site) -> None:
    found = site.examined()
    counts = {
        key: found["verified"][key]
        for key in ("categories", "conferences", "contributions", "schedule_entries")
    }
    assert {
        "categories": CATEGORIES,
        "conferences": CONFERENCES,
        "contributions": CONFERENCES * CONTRIBUTIONS,
        "schedule_entries": CONFERENCES * CONTRIBUTIONS,
    } == counts
    assert {user["email"] for user in USERS} < set(found["users"])
    assert [["session 0", "hall 0", 1], ["session 1", "hall 1", 1]] == found["sessions"]
    assert ["big hall"] == found["rooms"]
    assert found["trees"] > CONFERENCES


def test_each_instance_shows_pages_and_lets_users_log_in(site: Site) -> None:
    assert {200} == set(site.pages().values())
    for number, user in zip(range(len(site.addresses)), USERS, strict=False):
        page = site.browser(number, user["login"]).get("/")
        assert f"{user['first_name']} {user['last_name'].upper()}" in page.text


def test_an_instance_sees_at_once_what_another_one_saved(site: Site) -> None:
    """Or nobody else gets in, where one process alone can have the database."""
    if site.cluster.kind.one_process:
        refused = site.cluster.cli("pack")
        assert ExitCode.REFUSED == refused.returncode
        assert "supervisorctl" in refused.stderr
        return
    category = site.filled.categories[1]
    for number in range(2):
        title = f"saved on instance {number}"
        answer = site.browser(number, "admin").create_conference(category, title)
        assert answer.is_redirect, answer.text[:2000]
        event = answer.headers["Location"].split("/event/")[1].split("/")[0]
        seen = site.browser(1 - number).get(f"/event/{event}/")
        assert 200 == seen.status_code
        assert title in seen.text


def test_of_four_writers_at_once_none_loses_an_acknowledged_write(site: Site) -> None:
    before = len(site.told)
    writers = site.writers(count=COMMITS)
    assert writers.conflicts() > 0
    assert COMMITS * WRITERS == len(site.told) - before
    site.examined()


def test_the_last_transaction_is_undone_or_that_is_refused(site: Site) -> None:
    came = site.tasks.do("undo", category=site.filled.categories[0])
    if "undo" in site.backend.limits:
        assert "can't undo transactions" in came["error"]
        assert came["kept"]
    else:
        assert came["error"] is None
        assert came["undone"]


def test_a_blob_is_kept_or_that_is_refused(site: Site) -> None:
    came = site.tasks.do("keep_blob")
    if "blobs" in site.backend.limits:
        assert "not supported" in came["error"]
        assert came["kept"] is None
    else:
        assert "what it holds" == came["kept"]


def test_the_size_that_indico_tells_is_that_of_the_data(site: Site) -> None:
    """The bytes of the one Data.fs; else at least what its objects take when they are packed
    tight, and no more than there is on the disk."""
    told = site.tasks.do("size")
    if not site.backend.fenced_by_folder:
        [first, *_] = site.cluster.cluster.nodes
        assert data_fs(first).stat().st_size == told
    else:
        held = site.bytes or site.examined()["bytes"]
        disk = sum(path.stat().st_size for path in site.cluster.folder.rglob("*") if path.is_file())
        assert held / 4 < told < disk


def test_stats_counts_each_object_once_and_changes_nothing(site: Site) -> None:
    """Also those that nothing leads to any more, which a pack removes."""
    before = site.tasks.do("contents")
    done = site.cluster.cli("stats", "--json", "--top", "3")
    assert (ExitCode.OK, "") == (done.returncode, done.stderr)
    found = json.loads(done.stdout)
    assert site.cluster.cluster.name == found["cluster"]
    assert before["objects"] <= found["objects"]
    assert before["bytes"] <= found["bytes"]
    classes = {each["name"]: each["objects"] for each in found["classes"]}
    assert sum(classes.values()) == found["objects"]
    assert classes["MaKaC.conference.Conference"] == before["events"]
    assert 3 == len(found["largest"])
    assert before == site.tasks.do("contents")


def test_a_pack_removes_old_revisions_and_nothing_else(site: Site) -> None:
    old = site.tasks.do("revise", category=site.filled.categories[0])
    before = site.tasks.do("contents")
    if "pack" not in site.backend.limits:
        shown = site.cluster.cli("pack", "--days", "0", "--dry-run").stdout
        assert "; keep the last 0 days" in shown
    assert site.tasks.do("is_readable", **old)
    done = site.cluster.cli("pack", "--days", "0", "--reason", "to prove it")
    if "pack" in site.backend.limits:
        assert ExitCode.REFUSED == done.returncode
        assert site.backend.limits["pack"] in done.stderr
        return
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "to prove it" in site.cluster.cli("journal").stdout
    assert not site.tasks.do("is_readable", **old)
    after = site.examined()
    assert (before["objects"], before["digest"]) == (after["objects"], after["digest"])


def test_all_is_there_after_everything_was_restarted(site: Site) -> None:
    before = site.known()
    site.restart()
    after = site.examined()
    assert (before["objects"], before["digest"]) == (after["objects"], after["digest"])
    assert {200} == set(site.pages().values())


def test_what_was_acknowledged_before_a_kill_is_there_after_it(site: Site) -> None:
    stop = site.folder / "stop"
    writers = site.writers(stop=str(stop))
    try:
        writers.wait_for_more()
        for victim in site.cluster.kind.victims:
            site.cluster.kill(victim(site.cluster))
            writers.wait_for_more()
        if not site.cluster.kind.victims:
            writers.tasks.pop().kill()
            writers.begin_one()
            writers.wait_for_more()
    finally:
        stop.touch()
    writers.conflicts()
    site.examined()


def test_indico_goes_on_with_restored_data_and_remembers_nothing_newer(site: Site) -> None:
    under_test = site.cluster
    backups = str(site.folder / "backups")
    if limit(under_test.cluster, "backup") is not None:
        assert ExitCode.REFUSED == under_test.cli("backup", "--to", backups).returncode
        return
    assert site.addresses
    kept = under_test.cli("backup", "--to", backups)
    assert 0 == kept.returncode, kept.stdout + kept.stderr
    lost = _create(site, "lost for a while")
    done = under_test.cli("restore", "a", "--from", backups, "--reason", "a test")
    if len(under_test.cluster.nodes) > 1:
        assert ExitCode.REFUSED == done.returncode
        assert "the better way" in done.stderr
        return
    assert 0 == done.returncode, done.stdout + done.stderr
    assert {404} == {
        site.browser(number).get(f"/event/{lost}/").status_code
        for number in range(len(under_test.indico))
    }
    figures = journal.read(under_test.cluster)[0][-1].figures
    assert any("lost for a while" in what for what in figures["exported_objects"])
    assert lost == _create(site, "in its place")
    assert {200} == set(site.pages().values())


def _create(site: Site, title: str) -> str:
    """The number of a new event."""
    answer = site.browser(0, "admin").create_conference(site.filled.categories[1], title)
    assert answer.is_redirect, answer.text[:2000]
    return str(answer.headers["Location"].split("/event/")[1].split("/")[0])


@pytest.mark.exhaustive  # integration/test_in_app_benchmarks has ZRS and SQLite
def test_an_indico_that_measures_itself_leaves_everything_as_it_was(site: Site) -> None:
    before = site.examined()
    assert site.addresses  # Indico is up
    done = site.cluster.cli("bench", "in-app", "--quick", "--json")
    assert 0 == done.returncode, done.stderr
    answers = [each["details"] for each in json.loads(done.stdout)["measurements"]]
    assert len(TESTS) * len(CACHES) == len(answers)
    for each in answers:
        assert each["operations"] > 0
        loads = each["storage"]["loads"]
        if each["client_cache"] is not None:
            assert loads == each["client_cache"]["misses"]
        if each["caches"] == "cold":
            assert loads > 0
        if each["test"] in WRITE:
            assert each["storage"]["stores"] >= each["put_back"] > 0
        elif each["caches"] == "hot":
            assert 0 == loads
    after = site.examined()
    for held in ("objects", "events", "rooms"):
        assert before[held] == after[held]
    # In the order of a dict, which one that came and went may change.
    assert sorted(before["contributions"]) == sorted(after["contributions"])
