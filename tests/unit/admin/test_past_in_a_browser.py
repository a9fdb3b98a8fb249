"""The pages of the journal and of data in a browser: they fit, and can be read."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path

import kept
import looks
import past
import situations
from chromium import NewTab
from flask.testing import FlaskClient

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.host import statistics
from indico_zodbrepl.operations import journal
from indico_zodbrepl.operations.operation import Outcome


def with_a_past(folder: Path) -> tuple[Cluster, list[str]]:
    """A cluster that much was done to, and the paths of the pages that tell of it."""
    cluster = dataclasses.replace(
        situations.cluster(), var_directory=folder, source=folder / "cluster.conf"
    )
    cluster.source.write_text("made up\n")
    ended = past.failover(past.tail(cluster))
    stopped = past.failover(past.tail(cluster, f"{past.TAIL}-2"), 3, outcome=Outcome.STOPPED)
    past.keep(cluster, ended, *[past.packing(number) for number in range(4, 40)], stopped)
    past.keep(cluster, past.outage(), past.outage(39, None))
    with Layout(cluster).journal.open("a") as file:
        file.write("torn")
    statistics.keep(cluster, kept.KEPT)
    kept.runs(cluster, [100, 140, 60])
    return cluster, [
        "/journal",
        f"/journal/{ended.identifier}",
        f"/journal/{stopped.identifier}",
        "/data",
        "/data/benchmarks",
    ]


def test_the_pages_of_what_was_fit_and_can_be_read(
    new_tab: NewTab,
    serve_client: Callable[[FlaskClient], str],
    make_client: Callable[..., FlaskClient],
    tmp_path: Path,
) -> None:
    _cluster, paths = with_a_past(tmp_path)
    address = serve_client(make_client())
    tab = new_tab()
    for path in paths:
        tab.open(address + path)
        looks.check_at(tab, path, (1280, 390))


def test_the_page_of_backups_fits_and_can_be_read(
    new_tab: NewTab,
    serve_client: Callable[[FlaskClient], str],
    make_client: Callable[..., FlaskClient],
    tmp_path: Path,
) -> None:
    tab = new_tab()
    folder = tmp_path / "backups"
    schedule = {"backup_directory": folder, "backup_time": datetime.time(3)}
    address = serve_client(make_client(schedule))
    tab.open(address + "/data/backups")
    looks.check_at(tab, "no backups", (1280, 390))
    cluster = dataclasses.replace(
        situations.cluster(), var_directory=tmp_path, backup_directory=folder
    )
    for name in ("2026-11-20-03-00-00.fs", "2026-11-21-03-00-00.deltafs", ""):
        past.back_up(cluster, name)
    (folder / "2026-11-21-03-00-00.deltafs").unlink()
    with contextlib.suppress(OSError), journal.journaled(cluster, "backup", "b", "each night"):
        raise OSError("No space left on device")
    tab.open(address + "/data/backups")
    looks.check_at(tab, "backups", (1280, 390))


def test_a_wrong_form_says_so_where_the_page_begins(
    new_tab: NewTab,
    serve_client: Callable[[FlaskClient], str],
    make_client: Callable[..., FlaskClient],
    tmp_path: Path,
) -> None:
    with_a_past(tmp_path)
    tab = new_tab()
    tab.expected.add(400)
    tab.open(serve_client(make_client()) + "/data/benchmarks")
    tab.page.get_by_role("checkbox", name="testWriteConferencesLatency:").check()
    tab.page.locator("form.start").get_by_role("button", name="Run the benchmark").click()
    told = tab.page.get_by_role("alert")
    told.wait_for()
    assert "Confirm this, or choose only tests that read." in told.inner_text()
    for width in (1280, 390):
        tab.resize(width)
        assert width >= tab.evaluate("document.documentElement.scrollWidth")
