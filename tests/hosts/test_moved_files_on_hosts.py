"""Uploaded files are moved on the host that has them, whichever host has the primary."""

from __future__ import annotations

import os

import pytest
from balanced import Balanced

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import tunnel_control

pytestmark = pytest.mark.skipif(
    tunnel_control.find() is None, reason="haproxy is missing: apt-get install haproxy"
)

FILES = 3
SIZE = 100_000


@pytest.mark.exhaustive
def test_files_are_exported_and_imported_on_the_host_that_has_them(shared_lab: Lab) -> None:
    site = Balanced(shared_lab)
    site.start()
    three = site.three
    amounts = ("--conferences", "1", "--contributions", "0")
    three.lab["h1"].run(site.installation.bulkload, *amounts, environ=site.environment)
    user = site.logged_in()
    contents = [os.urandom(SIZE) for _ in range(FILES)]
    paths = [user.upload("0", f"talk-{n}.pdf", each) for n, each in enumerate(contents)]

    said = three.zodbrepl("h2", "files", "verify").stdout
    for node in ("a", "b", "c"):
        assert f"node {node}: {FILES} files, " in said
        assert f"node {node}: all files are there and right\n" in said

    said = three.zodbrepl("h2", "files", "export").stdout
    assert f"exported and verified: {FILES} files" in said

    said = three.zodbrepl("h1", "files", "import", code=ExitCode.REFUSED).stderr
    assert f"none of {FILES} files is in " in said

    said = three.zodbrepl("h2", "files", "import", "--dry-run").stdout
    assert all(f"room of node {node}: " in said for node in ("a", "b", "c"))
    said = three.zodbrepl("h2", "files", "import").stdout
    assert f"imported and verified: {FILES} files" in said
    for _ in ("one", "two"):
        assert [user.get(path).content for path in paths] == contents
