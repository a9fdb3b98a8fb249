"""Copies of the files of operations: the newest version counts, and nothing else replaces it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, Node, Role
from indico_zodbrepl.cluster.programs import Admin
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import operation_files
from indico_zodbrepl.host.operations_interface import LockLostError, Texts
from indico_zodbrepl.host.remote import copies

NAME = "20261124T063000.000Z-restart"


@pytest.fixture
def own(tmp_path: Path) -> Cluster:
    return cluster(tmp_path, "h1")


@pytest.fixture
def other(tmp_path: Path) -> Cluster:
    return cluster(tmp_path, "h2")


def cluster(folder: Path, here: str) -> Cluster:
    return Cluster(
        name="test",
        backend="zrs",
        nodes=(Node("a", "127.0.0.1", 1, 2, folder / here / "a", Role.PRIMARY),),
        indico=(),
        admin=Admin("127.0.0.1", 5),
        var_directory=folder / here / "var",
        reconnect_delay=1.0,
        keep_alive_delay=5.0,
        allow_public_addresses=False,
        source=folder / "cluster.conf",
        here=here,
    )


def document(version: int, text: str = "") -> str:
    return json.dumps({"id": NAME, "version": version, "text": text})


def line(identifier: str, version: int, text: str = "") -> str:
    return json.dumps({"id": identifier, "version": version, "text": text})


def journal(of: Cluster) -> list[str]:
    return Layout(of).journal.read_text().splitlines()


def catch_up(own: Cluster, other: Cluster) -> None:
    """Copy to ``own`` as an agent does."""
    wanted = copies.lacking(operation_files.index(own), operation_files.index(other))
    operation_files.keep(own, operation_files.texts(other, *wanted))


def test_a_newer_file_replaces_an_older_one(own: Cluster) -> None:
    for version in (1, 2, 7):
        operation_files.keep(own, Texts({NAME: document(version)}))
    assert document(7) == Layout(own).operation(NAME).read_text()


@pytest.mark.parametrize("present", [2, 3])
def test_a_command_is_stopped_whose_operation_another_one_has_continued(
    own: Cluster, present: int
) -> None:
    operation_files.keep(own, Texts({NAME: document(present, "of the other one")}))
    with pytest.raises(LockLostError):
        operation_files.keep(own, Texts({NAME: document(2)}))
    assert document(present, "of the other one") == Layout(own).operation(NAME).read_text()


def test_the_same_file_may_come_twice(own: Cluster) -> None:
    for _ in range(2):
        operation_files.keep(own, Texts({NAME: document(1)}))


def test_a_damaged_file_is_replaced_by_the_copy_of_another_host(
    own: Cluster, other: Cluster
) -> None:
    for each in (own, other):
        operation_files.keep(each, Texts({NAME: document(5)}))
    Layout(own).operation(NAME).write_text("{")
    catch_up(own, other)
    assert document(5) == Layout(own).operation(NAME).read_text()


def test_lines_are_appended_once_and_older_ones_never_after_newer_ones(own: Cluster) -> None:
    for lines in (["a", 1], ["b", 1]), (["a", 1], ["a", 2]), (["a", 1], ["b", 1]):
        operation_files.keep(own, Texts({}, [line(*each) for each in lines]))  # type: ignore[arg-type]
    assert [line("a", 1), line("b", 1), line("a", 2)] == journal(own)


def test_lines_without_versions_are_copied_once(own: Cluster, other: Cluster) -> None:
    """A journal of the time before the cluster had several hosts."""
    Layout(other).journal.parent.mkdir(parents=True)
    Layout(other).journal.write_text('{"id":"a","n":1}\n{"id":"a","n":2}\n{"id":"b","n":1}\n')
    for _ in range(2):
        catch_up(own, other)
    assert ['{"id":"a","n":2}', '{"id":"b","n":1}'] == journal(own)


def test_hosts_with_the_same_need_not_compare(own: Cluster, other: Cluster) -> None:
    operation_files.keep(own, Texts({NAME: document(1)}, [line("b", 1), line("a", 1)]))
    operation_files.keep(other, Texts({NAME: document(1)}, [line("a", 1), line("b", 1)]))
    found = operation_files.index(own)
    assert (1, 2) == (len(found.documents), len(found.lines))
    short = operation_files.index(other, found.digest)
    assert (found.digest, {}, {}) == (short.digest, short.documents, short.lines)


def test_each_host_gets_what_the_other_one_has(own: Cluster, other: Cluster) -> None:
    second = NAME.replace("06", "07")
    operation_files.keep(own, Texts({NAME: document(3)}, [line("a", 2), line("c", 1)]))
    operation_files.keep(
        other, Texts({NAME: document(2), second: document(1)}, [line("a", 1), line("b", 1)])
    )
    catch_up(own, other)
    catch_up(other, own)
    assert operation_files.index(own) == operation_files.index(other)
    assert document(3) == Layout(other).operation(NAME).read_text()
    assert [line("a", 1), line("b", 1), line("a", 2), line("c", 1)] == journal(other)


@pytest.mark.parametrize("name", ["../epoch", "/etc/passwd", "a/b", ".hidden", ""])
def test_a_name_that_is_no_operations_is_refused(own: Cluster, name: str) -> None:
    with pytest.raises(OperatorError):
        operation_files.keep(own, Texts({name: document(1)}))
    with pytest.raises(OperatorError):
        operation_files.texts(own, [name], [])


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version":1}', '{"id":"a"}\n{"id":"b"}'])
def test_what_is_no_line_or_no_file_is_refused(own: Cluster, text: str) -> None:
    with pytest.raises(OperatorError):
        operation_files.keep(own, Texts({}, [text]))
    with pytest.raises(OperatorError):
        operation_files.keep(own, Texts({NAME: text}))
