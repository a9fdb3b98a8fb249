"""docs/how-to/existing-indico.md, followed: onto the pair with a site's Data.fs, and back."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests
from bs4 import BeautifulSoup
from clusters import PATIENCE, ClusterUnderTest, MakeCluster, wait_until
from indico_browser import IndicoBrowser

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import lifecycle

BASE_URL = "https://events.example.org/indico"
OWNER = {
    "login": "owner",
    "password": "old secret",
    "email": "owner@example.org",
    "first_name": "Ow",
    "last_name": "Ner",
}

# What an indico.conf of Indico 1.2 looks like; the folders are not there any more.
SITE_CONF = f"""\
DBConnectionParams   = ("localhost", 9675)
DBUserName           = ""
BaseURL              = "{BASE_URL}"
BaseSecureURL        = ""
ArchiveDir           = "{{folder}}/old archive"
ConfigurationDir     = "/opt/indico/etc"
HtdocsDir            = "/opt/indico/htdocs"
LogDir               = "/opt/indico/log"
UploadedFilesTempDir = "/opt/indico/tmp"
XMLCacheDir          = "/opt/indico/cache"
SmtpServer           = ("127.0.0.1", 1)
SupportEmail         = "help@example.org"
"""
PLAIN_STORAGE = "<filestorage>\n  path {path}\n</filestorage>\n"
OPEN_PLAIN = """
import json, sys, ZODB
db = ZODB.DB(sys.argv[1])
root = db.open().root()
print(json.dumps(sorted(each.getTitle() for each in root['conferences'].values())))
db.close()
"""


class OldSite:
    """An Indico whose database is a plain Data.fs; ``make`` fills it."""

    def __init__(self, folder: Path, installation: Installation) -> None:
        self.data_fs = folder / "Data.fs"
        self.conf = folder / "indico.conf"
        self.archive = folder / "old archive"
        self._folder = folder
        self._installation = installation

    def copy(self, other: OldSite) -> None:
        """Become what another site is, in this one's own folder."""
        self._write_conf()
        shutil.copy(other.data_fs, self.data_fs)

    def _write_conf(self) -> None:
        self.archive.mkdir(parents=True)
        self.conf.write_text(SITE_CONF.format(folder=self._folder))

    def make(self) -> None:
        """An administrator and six conferences with two contributions each."""
        self._write_conf()
        storage = self._folder / "zodb.conf"
        storage.write_text(PLAIN_STORAGE.format(path=self.data_fs))
        admin_file = self._folder / "admin.json"
        admin_file.touch(mode=0o600)
        admin_file.write_text(json.dumps(OWNER))
        own = self._folder / "filling.conf"
        own.write_text(
            f"{self.conf.read_text()}\nDBStorageURL = '{storage}'\n"
            + "".join(
                f"{key} = '{self._folder}'\n"
                for key in ("LogDir", "ConfigurationDir", "XMLCacheDir", "UploadedFilesTempDir")
            )
        )
        python27(
            own,
            self._installation.python27,
            "-m",
            "indico_zodbrepl.dataplane.indico.firstrun",
            "--admin-file",
            admin_file,
        )
        python27(own, self._installation.bulkload, "--conferences", "6", "--contributions", "2")


def python27(indico_conf: Path, *command: str | Path) -> str:
    """Run a program of the data plane; its standard output.

    Beside its indico.conf: Indico puts its log there when the folder for it is not there any more.
    """
    done = subprocess.run(
        command,
        env={**os.environ, "INDICO_CONF": str(indico_conf)},
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        cwd=indico_conf.parent,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def dataplane(
    cluster: Cluster, under_test: ClusterUnderTest, module: str, *arguments: str | Path
) -> Any:
    """Run ``python -m indico_zodbrepl.dataplane.MODULE`` for the first instance; its JSON."""
    return json.loads(
        python27(
            Layout(cluster).indico_conf(cluster.indico[0]),
            under_test.installation.python27,
            "-m",
            f"indico_zodbrepl.dataplane.{module}",
            *arguments,
        )
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, home: Path) -> OldSite:
    """A site with conferences, to be copied."""
    made = OldSite(tmp_path_factory.mktemp("filled") / "old", Installation(home))
    made.make()
    return made


@pytest.fixture
def under_test(make_cluster: MakeCluster) -> ClusterUnderTest:
    return make_cluster(indico=("one",))


@pytest.fixture
def site(tmp_path: Path, under_test: ClusterUnderTest) -> OldSite:
    """A site of its own; the cluster file names its indico.conf."""
    made = OldSite(tmp_path / "old", under_test.installation)
    under_test.path.write_text(f"site-conf {made.conf}\n{under_test.path.read_text()}")
    return made


def identical(cluster: Cluster) -> bool:
    filecmp.clear_cache()  # which takes a file for unchanged that was just written again
    return filecmp.cmp(data_fs(cluster.node("a")), data_fs(cluster.node("b")), shallow=False)


def title_of(page: requests.Response) -> str:
    assert 200 == page.status_code
    title = BeautifulSoup(page.text, "html.parser").title
    assert title is not None
    return title.text


def test_an_existing_site_comes_onto_the_pair_and_goes_back(
    under_test: ClusterUnderTest, site: OldSite, filled: OldSite
) -> None:
    site.copy(filled)
    cluster = under_test.cluster
    node_a = cluster.node("a")
    node_a.data_directory.mkdir(parents=True, mode=0o700)
    shutil.copy(site.data_fs, data_fs(node_a))
    under_test.start()

    adopted = dataplane(cluster, under_test, "adopt")
    assert {"users": 1, "conferences": 6, "contributions": 12, "damaged": []} == {
        key: adopted[key] for key in ("users", "conferences", "contributions", "damaged")
    }
    wait_until(lambda: identical(cluster), "the secondary holds what the primary holds")

    browser = IndicoBrowser(cluster.indico[0].base_url)
    event = browser.get("/event/0/")
    title = title_of(event)
    assert f"{BASE_URL}/event/0/" in event.text
    assert "help@example.org" in browser.get("/contact").text
    browser.log_in(OWNER["login"], OWNER["password"])
    answers = [
        each.session.get(f"{each.base_url}/admin/", allow_redirects=False, timeout=PATIENCE)
        for each in (browser, IndicoBrowser(browser.base_url))
    ]
    assert [200, 303] == [answer.status_code for answer in answers]
    assert answers[1].headers["Location"].startswith(f"{BASE_URL}/user/login")

    under_test.stop("node-a")
    wait_until(lambda: 200 == browser.get("/event/0/").status_code, "pages from the secondary")
    assert title == title_of(browser.get("/event/0/"))

    under_test.down()
    titles = []
    for node in cluster.nodes:
        plain = site.data_fs.with_name(f"{node.name}.fs")
        shutil.copy(data_fs(node), plain)
        titles.append(
            python27(site.conf, under_test.installation.python27, "-c", OPEN_PLAIN, plain)
        )
    assert titles[0] == titles[1]
    assert title.rpartition("  (")[0] in json.loads(titles[0])

    older = site.data_fs.with_name("older.fs")
    counts = dataplane(cluster, under_test, "downgrade", data_fs(cluster.node("b")), older)
    assert 0 < counts["converted"] <= counts["records"]
    assert titles[0] == python27(
        site.conf, under_test.installation.python27, "-c", OPEN_PLAIN, older
    )


def test_a_secondary_that_starts_with_a_copy_of_the_file_follows(
    under_test: ClusterUnderTest, site: OldSite, filled: OldSite
) -> None:
    """Which is faster than the replication of everything."""
    site.copy(filled)
    cluster = under_test.cluster
    for node in cluster.nodes:
        node.data_directory.mkdir(parents=True)
        shutil.copy(site.data_fs, data_fs(node))
    lifecycle.up_storage(under_test.cluster, under_test.installation)
    admin = site.data_fs.with_name("admin.json")
    admin.touch(mode=0o600)
    admin.write_text(json.dumps({**OWNER, "login": "new", "email": "new@example.org"}))
    assert dataplane(cluster, under_test, "firstrun", "--admin-file", admin)["created"]
    wait_until(lambda: identical(cluster), "the secondary holds what the primary holds")
    assert data_fs(cluster.node("b")).stat().st_size > site.data_fs.stat().st_size


def test_a_site_conf_that_is_missing_stops_check_and_up_but_not_down(
    under_test: ClusterUnderTest, site: OldSite
) -> None:
    site.conf.parent.mkdir()
    site.conf.write_text("")
    lifecycle.up_storage(under_test.cluster, under_test.installation)
    site.conf.unlink()
    for command in ("check", "up"):
        done = under_test.cli(command)
        assert ExitCode.BAD_CONFIG == done.returncode
        assert f"{under_test.path}:1: site-conf {site.conf}: No such file" in done.stderr
    under_test.down()
    assert [] == under_test.processes()
