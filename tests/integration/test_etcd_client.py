"""The client of etcd against real members that are lost, frozen, full or without a leader."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusters import wait_until
from etcd_members import EtcdMembers, etcd_members

from indico_zodbrepl.etcd.client import Entry, Etcd
from indico_zodbrepl.etcd.following import Change, Following
from indico_zodbrepl.etcd.problems import EtcdAwayError, EtcdFullError, EtcdRefusedError
from indico_zodbrepl.etcd.transport import Login, Transport

pytestmark = pytest.mark.skipif(shutil.which("etcd") is None, reason="lacks etcd-server")

LONG = 30.0
"""Seconds for calls that must succeed, on a busy machine too."""
SHORT = 1.0
"""Seconds for calls that can't succeed."""


@pytest.fixture
def members(tmp_path: Path) -> Iterator[EtcdMembers]:
    with etcd_members(tmp_path) as started:
        yield started


@pytest.fixture
def single(tmp_path: Path) -> Iterator[EtcdMembers]:
    with etcd_members(tmp_path, 1) as started:
        yield started


def client(members: EtcdMembers, *, first: int = 0, login: Login | None = None) -> Etcd:
    urls = members.endpoints[first:] + members.endpoints[:first]
    return Etcd(Transport(urls, login=None if login is None else lambda: login))


def created(etcd: Etcd, key: str, value: bytes) -> Entry:
    outcome = etcd.create(key, value, LONG)
    assert outcome.done
    assert outcome.entry is not None
    return outcome.entry


def swapped(etcd: Etcd, entry: Entry, value: bytes) -> Entry:
    outcome = etcd.swap(entry, value, LONG)
    assert outcome.done
    assert outcome.entry is not None
    return outcome.entry


def fill(etcd: Etcd) -> None:
    """Write until the quota is used up; five megabytes at most."""
    for number in range(100):
        etcd.put(f"/fill/{number}", b"x" * 50_000, LONG)


def test_each_kind_of_write_tells_whether_it_counts(single: EtcdMembers) -> None:
    etcd = client(single)
    assert etcd.get("/t/a", LONG) is None
    first = created(etcd, "/t/a", b"1")
    assert etcd.get("/t/a", LONG) == first
    again = etcd.create("/t/a", b"2", LONG)
    assert (again.done, again.entry) == (False, first)
    second = swapped(etcd, first, b"2")
    assert second.revision > first.revision
    late = etcd.swap(first, b"3", LONG)
    assert (late.done, late.entry) == (False, second)
    etcd.put("/t/b", b"x", LONG)
    etcd.put("/u", b"x", LONG)
    assert [each.key for each in etcd.list("/t/", LONG).entries] == ["/t/a", "/t/b"]
    assert not etcd.delete(first, LONG)
    assert etcd.delete(second, LONG)
    gone = etcd.swap(second, b"4", LONG)
    assert (gone.done, gone.entry) == (False, None)


def test_a_call_goes_to_another_member_when_one_is_gone_or_frozen(members: EtcdMembers) -> None:
    first, second = (members.all.index(each) for each in members.followers())
    etcd = client(members, first=first)
    entry = created(etcd, "/t", b"1")
    members.all[first].freeze()
    entry = swapped(etcd, entry, b"2")
    members.all[first].thaw()
    etcd = client(members, first=second)
    entry = swapped(etcd, entry, b"3")
    members.all[second].kill()
    swapped(etcd, entry, b"4")


def test_swaps_go_on_when_the_leader_of_etcd_is_killed(members: EtcdMembers) -> None:
    leader = members.all.index(members.leader())
    etcd = client(members, first=leader)
    entry = created(etcd, "/t", b"1")
    members.all[leader].kill()
    entry = swapped(etcd, entry, b"2")
    assert etcd.get("/t", LONG) == entry


def test_swaps_go_on_when_the_leader_of_etcd_is_frozen(members: EtcdMembers) -> None:
    leader = members.all.index(members.leader())
    etcd = client(members, first=(leader + 1) % 3)
    entry = created(etcd, "/t", b"1")
    members.all[leader].freeze()
    swapped(etcd, entry, b"2")
    members.all[leader].thaw()


def test_without_a_majority_no_call_succeeds_and_the_client_recovers(members: EtcdMembers) -> None:
    etcd = client(members)
    entry = created(etcd, "/t", b"1")
    for member in members.followers():
        member.freeze()
    with pytest.raises(EtcdAwayError) as caught:
        etcd.swap(entry, b"2", SHORT)
    assert caught.value.unknown
    with pytest.raises(EtcdAwayError):
        etcd.get("/t", SHORT)
    for member in members.all:
        member.thaw()

    def is_swapped() -> bool:
        """Try again if the call of an unknown outcome, which a frozen member got, succeeds late."""
        present = etcd.get("/t", LONG)
        assert present is not None
        return etcd.swap(present, b"3", LONG).done

    wait_until(is_swapped, "the client recovers")


def test_an_error_names_each_member_and_why_it_did_not_answer(members: EtcdMembers) -> None:
    etcd = client(members)
    for member in members.all:
        member.kill()
    with pytest.raises(EtcdAwayError) as caught:
        etcd.swap(Entry("/t", b"", 1), b"2", SHORT)
    assert not caught.value.unknown
    for url in members.endpoints:
        assert f"{url}: connection refused" in caught.value.detail


def test_a_swap_whose_answer_was_lost_is_recognised(members: EtcdMembers) -> None:
    """The member is frozen after it has the request; the majority may know it or not."""
    leader = members.all.index(members.leader())
    etcd = client(members, first=leader)
    entry = created(etcd, "/t", b"0")
    for number in range(1, 6):
        frozen = members.all[leader]
        timer = threading.Timer(0.002 * number, frozen.freeze)
        timer.start()
        entry = swapped(etcd, entry, str(number).encode())
        timer.join()
        assert etcd.get("/t", LONG) == entry
        frozen.thaw()
        members.wait_until_ready()
        leader = members.all.index(members.leader())
        etcd = client(members, first=leader)


def test_a_lost_write_of_somebody_else_is_not_taken_for_ours(single: EtcdMembers) -> None:
    etcd = client(single)
    entry = created(etcd, "/t", b"0")
    swapped(etcd, entry, b"theirs")
    outcome = etcd.swap(entry, b"ours", LONG)
    assert not outcome.done


class Collected:
    """What a watch has yielded, by a thread of its own."""

    def __init__(self, following: Following) -> None:
        self.changes: list[Change] = []
        self.following = following
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        self.changes.extend(iter(self.following))

    def close(self) -> None:
        self.following.close()
        self._thread.join(LONG)
        assert not self._thread.is_alive()

    @property
    def known(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for change in list(self.changes):
            if change.entry is None:
                found.pop(change.key)
            else:
                found[change.key] = change.entry.value
        return found


@pytest.fixture
def collect() -> Iterator[Callable[[Following], Collected]]:
    opened: list[Collected] = []

    def start(following: Following) -> Collected:
        opened.append(Collected(following))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_a_watch_begins_with_the_present_and_ends_when_it_is_closed(
    single: EtcdMembers, collect: Callable[[Following], Collected]
) -> None:
    etcd = client(single)
    entry = created(etcd, "/t/a", b"1")
    created(etcd, "/other", b"1")
    seen = collect(Following(etcd, "/t/", silent=LONG))
    wait_until(lambda: seen.known == {"/t/a": b"1"}, "the present")
    entry = swapped(etcd, entry, b"2")
    created(etcd, "/t/b", b"1")
    wait_until(lambda: seen.known == {"/t/a": b"2", "/t/b": b"1"}, "changes")
    assert etcd.delete(entry, LONG)
    wait_until(lambda: seen.known == {"/t/b": b"1"}, "the deletion")
    assert len(seen.changes) == 4


def test_a_watch_survives_each_member_and_a_compaction(
    members: EtcdMembers, collect: Callable[[Following], Collected]
) -> None:
    etcd = client(members)
    seen = collect(Following(client(members), "/t/", silent=0.5))
    for number, member in enumerate(members.all):
        expected = f"{number}".encode()
        member.freeze()
        etcd.put("/t/a", expected, LONG)
        wait_until(lambda want=expected: seen.known == {"/t/a": want}, "a change")  # type: ignore[misc]
        member.thaw()
        members.wait_until_ready()
    revision = etcd.put("/t/b", b"1", LONG)
    members.leader().ask("kv/compaction", revision=str(revision), physical=True)
    for member in members.all:
        member.kill()
    for member in members.all:
        member.start()
    etcd.put("/t/b", b"2", LONG)
    wait_until(lambda: seen.known == {"/t/a": b"2", "/t/b": b"2"}, "changes after a restart")


def test_a_watch_follows_a_store_that_was_restored_from_an_older_one(
    tmp_path: Path, collect: Callable[[Following], Collected]
) -> None:
    with etcd_members(tmp_path, 1) as members:
        etcd, member = client(members), members.all[0]
        created(etcd, "/t/a", b"old")
        member.kill()
        shutil.copytree(member.folder / "data", tmp_path / "copy")
        member.start()
        etcd.put("/t/a", b"new", LONG)
        etcd.put("/t/b", b"new", LONG)
        seen = collect(Following(client(members), "/t/", silent=0.5))
        wait_until(lambda: seen.known == {"/t/a": b"new", "/t/b": b"new"}, "the present")
        member.kill()
        shutil.rmtree(member.folder / "data")
        shutil.copytree(tmp_path / "copy", member.folder / "data")
        member.start()
        wait_until(lambda: seen.known == {"/t/a": b"old"}, "the restored state")


def test_a_full_store_refuses_writes_and_serves_reads(tmp_path: Path) -> None:
    with etcd_members(tmp_path, 1, "--quota-backend-bytes", "200000") as members:
        etcd = client(members)
        entry = created(etcd, "/t", b"1")
        with pytest.raises(EtcdFullError) as caught:
            fill(etcd)
        assert "docs/how-to/etcd.md" in caught.value.hint
        with pytest.raises(EtcdFullError):
            etcd.swap(entry, b"2", LONG)
        assert etcd.get("/t", LONG) == entry


def test_a_login_is_renewed_when_etcd_has_forgotten_it(single: EtcdMembers) -> None:
    member = single.all[0]
    for user in ("root", "zodbrepl"):
        member.ask("auth/user/add", name=user, password="secret")
    member.ask("auth/role/add", name="root")
    member.ask("auth/user/grant", user="root", role="root")
    member.ask("auth/role/add", name="own")
    permission = {"permType": "READWRITE", "key": "L3Qv", "range_end": "L3Qw"}  # from /t/ to /t0
    member.ask("auth/role/grant", name="own", perm=permission)
    member.ask("auth/user/grant", user="zodbrepl", role="own")
    member.ask("auth/enable")
    etcd = client(single, login=Login("zodbrepl", "secret"))
    entry = created(etcd, "/t/a", b"1")
    with pytest.raises(EtcdRefusedError, match="refused") as refused:
        etcd.put("/other", b"1", LONG)
    assert "permission denied" in refused.value.detail
    member.kill()
    member.start()
    entry = swapped(etcd, entry, b"2")
    following = Following(etcd, "/t/")
    assert next(iter(following)).entry == entry
    following.close()
    with pytest.raises(EtcdRefusedError) as caught:
        client(single, login=Login("zodbrepl", "wrong")).get("/t/a", LONG)
    assert "password-file" in caught.value.hint
    with pytest.raises(EtcdRefusedError):
        client(single).get("/t/a", LONG)


def test_many_threads_share_a_client(single: EtcdMembers) -> None:
    etcd = client(single)
    created(etcd, "/t", b"0:0")
    done: list[bool] = []

    def count(name: int) -> None:
        for number in range(20):
            while True:
                entry = etcd.get("/t", LONG)
                assert entry is not None
                if etcd.swap(entry, f"{name}:{number}".encode(), LONG).done:
                    break
        done.append(True)

    threads = [threading.Thread(target=count, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 4
    member = single.all[0]
    assert member.ask("kv/range", key="L3Q=")["kvs"][0]["version"] == "81"


def test_a_call_keeps_to_its_limit(single: EtcdMembers) -> None:
    etcd = client(single)
    etcd.get("/t", LONG)
    single.all[0].freeze()
    before = time.monotonic()
    with pytest.raises(EtcdAwayError):
        etcd.get("/t", SHORT)
    assert time.monotonic() - before < LONG
    single.all[0].thaw()
