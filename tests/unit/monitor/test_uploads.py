"""What the status says of uploaded files: where they are, and which of them can't be read."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from situations import instance, server, snapshot
from spread import WELL, seen

from indico_zodbrepl.cli.status_view import uploads
from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.monitor.snapshot import State
from indico_zodbrepl.probing.answers import Level


def marked(first: str, second: str, problem: str = "") -> dict[str, Any]:
    """Return what hosts h1 and h2 report of their folders; the problem is that of h2."""
    return {
        "hosts": {
            "h1": dataclasses.replace(WELL, archive=first),
            "h2": dataclasses.replace(WELL, archive=second, archive_problem=problem),
        }
    }


def test_a_primary_that_lacks_blobs_is_an_alert_until_they_are_back() -> None:
    lacking = server("a", blobs_missing=2, blob_missing="/srv/a/blobs/0x00/x.blob")
    found = snapshot(servers={"a": lacking})
    assert State.DEGRADED is found.state
    (alert,) = found.warnings
    assert (Level.CRITICAL, "a") == (alert.level, alert.subject)
    assert "2 files, such as /srv/a/blobs/0x00/x.blob." in alert.detail


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("m1", "Uploaded files: one folder for h1, h2"),
        ("", "Uploaded files: unknown whether h2 shares the folder of the others"),
    ],
)
def test_it_is_said_that_hosts_share_the_folder_of_uploaded_files(
    second: str, expected: str
) -> None:
    found = seen(FileStore.ARCHIVE, **marked("m1", second))
    assert [expected] == list(uploads(found))
    assert State.HEALTHY is found.state


def test_hosts_with_different_folders_are_an_alert_while_new_files_go_there() -> None:
    found = seen(FileStore.ARCHIVE, **marked("m1", "m2"))
    (alert,) = found.warnings
    assert "uploaded files differ: h1 and h2 share no archive-directory" == alert.text
    assert "`files blobs`" in alert.hint
    assert [] == list(uploads(found))
    in_database = seen(**marked("m1", "m2"))
    assert (State.HEALTHY, ()) == (in_database.state, in_database.warnings)
    assert [] == list(uploads(in_database))


def test_a_host_that_cannot_write_into_the_folder_is_an_alert() -> None:
    found = seen(FileStore.ARCHIVE, **marked("m1", "m1", "can't write into /srv: Read-only"))
    (alert,) = found.warnings
    assert (Level.WARNING, "h2") == (alert.level, alert.subject)
    assert "Can't write into /srv: Read-only." in alert.detail


@pytest.mark.parametrize(
    ("second", "level", "text"),
    [
        ("m1", Level.NOTICE, "7 uploaded files are in the archive, not in the database"),
        ("m2", Level.WARNING, "7 uploaded files are in the archive, and h1 and h2 share none"),
    ],
)
def test_files_that_were_not_imported_are_named_with_the_command(
    second: str, level: Level, text: str
) -> None:
    answers: dict[str, Any] = {"indico": {"one": instance("one", files_in_archive=7)}}
    (alert,) = seen(**marked("m1", second), **answers).warnings
    assert (level, text) == (alert.level, alert.text)
    assert "files import" in alert.hint
    assert () == seen(FileStore.ARCHIVE, **marked("m1", "m1"), **answers).warnings


def test_on_one_host_files_in_the_archive_are_a_notice() -> None:
    found = snapshot(indico={"one": instance("one", files_in_archive=1)})
    (alert,) = found.warnings
    assert alert.text.startswith("1 uploaded file is in the archive")
    assert State.HEALTHY is found.state


def test_requests_that_missed_a_file_are_an_alert_for_a_while() -> None:
    missed = instance("one", files_missing=2, file_missing="a file of event 1")
    (alert,) = snapshot(indico={"one": missed}).warnings
    assert "Indico instance one misses uploaded files" == alert.text
    assert (
        "2 requests of the last 10 minutes with 503, the last one for a file of event 1"
        in alert.detail
    )
