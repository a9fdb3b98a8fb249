"""The records in etcd: their JSON, unknown fields, newer formats."""

from __future__ import annotations

import json

import pytest

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd.client import Entry
from indico_zodbrepl.etcd.keys import (
    Config,
    Leader,
    Member,
    Operation,
    Paused,
    Sync,
    decode,
    encode,
)

RECORDS = (
    Leader("a", "one", 3, 17, True, "2026-01-01T00:00:00Z", "its host is lost"),
    Sync(3, 1, "fsync", True, ("b", "c"), "2026-01-01T00:00:00Z"),
    Member("b", "two", 3, "03ff", "", "secondary", 1.5, "", "2026-01-01T00:00:00Z"),
    Paused("ada", "new disks", "2026-01-01T00:00:00Z"),
    Operation("ada", "one", 17, "20260101-1", 4),
    Config("abc"),
)


def entry(value: object) -> Entry:
    return Entry("/zodbrepl/x/leader", json.dumps(value).encode(), 1)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_read_as_it_was_written(record: object) -> None:
    assert decode(Entry("/k", encode(record), 1), type(record)) == record


def test_fields_of_a_newer_release_are_ignored() -> None:
    values = {"format": 1, "digest": "abc", "colour": "blue"}
    assert decode(entry(values), Config) == Config("abc")


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(OperatorError) as caught:
        decode(entry({"format": 2, "digest": 7}), Config)
    assert caught.value.exit_code is ExitCode.NEWER_STATE
    assert "/zodbrepl/x/leader" in caught.value.detail


@pytest.mark.parametrize("value", [{"format": 1}, [], "text", {"digest": 7}])
def test_anything_else_is_an_error_that_names_the_key(value: object) -> None:
    with pytest.raises(OperatorError) as caught:
        decode(entry(value), Config)
    assert "/zodbrepl/x/leader" in caught.value.detail
