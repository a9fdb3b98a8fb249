"""Two hosts with Indico that share a folder of uploaded files, and its file server that hangs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import wait_until
from three import HOME, Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.host.archive import MARK


@pytest.fixture
def archive() -> Iterator[Path]:
    """A folder that all hosts see; each has a /tmp of its own."""
    above = HOME / "var"
    above.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="archive-", dir=above) as name:
        folder = Path(name)
        yield folder
        if (folder / MARK).is_fifo():
            release(folder / MARK)


@pytest.fixture
def three(shared_lab: Lab, archive: Path) -> Three:
    section = ["files archive", f"archive-directory {archive}"]
    for name, host in {"one": "h1", "two": "h2"}.items():
        section += [f"<indico {name}>", f"host {host}", "port 8101", "</indico>"]
    made = Three(shared_lab, section="\n".join(section))
    made.agents()
    made.zodbrepl("h1", "up")
    return made


def release(mark: Path) -> None:
    """Let those go on who wait for somebody to write into a FIFO."""
    os.close(os.open(mark, os.O_RDWR | os.O_NONBLOCK))


def problems(three: Three) -> dict[str, str]:
    return {each["name"]: each["archive_problem"] for each in three.status("h3")["hosts"]}


@pytest.mark.exhaustive
def test_a_file_server_that_hangs_delays_nobody_and_is_reported(
    three: Three, archive: Path
) -> None:
    assert (
        "Uploaded files: one folder for h1, h2" in three.zodbrepl("h3", "status", code=None).stdout
    )
    checked = three.zodbrepl("h3", "check", "--system", code=None).stdout
    assert "h1, h2 share one folder and can write" in checked
    mark = archive / MARK
    text = mark.read_text()
    mark.unlink()
    os.mkfifo(mark)

    def hangs() -> bool:
        found = problems(three)
        return all("does not answer" in found[name] for name in ("h1", "h2"))

    assert wait_until(hangs, later())
    status = three.status("h3")
    assert [True] * 3 == [each["problem"] == "" for each in status["hosts"]]
    texts = {each["text"] for each in status["warnings"]}
    assert {f"host {name} can't keep uploaded files" for name in ("h1", "h2")} <= texts
    fifo = archive / "fifo"
    mark.rename(fifo)
    mark.write_text(text)
    release(fifo)
    assert wait_until(lambda: set(problems(three).values()) == {""}, later())
