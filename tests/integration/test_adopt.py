"""``zodbrepl adopt``: an existing Indico moves onto a cluster, and goes back."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from clusters import PATIENCE, ClusterUnderTest, MakeCluster, Roles, wait_until
from indico_browser import IndicoBrowser
from test_existing_indico import OPEN_PLAIN, OWNER, OldSite, python27, title_of

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import ExitCode

HOME = Path(__file__).parents[2]
OLD = HOME / "tests/dataplane/old_indico"
WAY_BACK = "-m indico_zodbrepl.dataplane.programs.downgrade"
ALONE: Roles = {"a": ("primary", None)}


class Site(OldSite):
    """An old site, the file of whose cluster names its indico.conf."""

    def make_older(self, release: str) -> None:
        """Become a site of an older release, whose three uploaded files are lost."""
        self._write_conf()
        self.data_fs.write_bytes(gzip.decompress((OLD / f"indico-{release}.fs.gz").read_bytes()))

    def digests(self) -> dict[str, str]:
        """The content of each file of the site."""
        folder = self.data_fs.parent
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, home: Path) -> OldSite:
    """A site of Indico 1.2.2 with conferences, to be copied."""
    made = OldSite(tmp_path_factory.mktemp("filled") / "old", Installation(home))
    made.make()
    return made


@pytest.fixture
def under_test(make_cluster: MakeCluster) -> ClusterUnderTest:
    return make_cluster(indico=("one",))


def site_of(under_test: ClusterUnderTest) -> Site:
    """An old site; the cluster file names its indico.conf."""
    made = Site(under_test.folder / "old", under_test.installation)
    under_test.path.write_text(f"site-conf {made.conf}\n{under_test.path.read_text()}")
    return made


@pytest.fixture
def site(under_test: ClusterUnderTest) -> Site:
    return site_of(under_test)


def adopt(
    under_test: ClusterUnderTest, site: Site, *options: str
) -> subprocess.CompletedProcess[str]:
    return under_test.cli("adopt", "--from", str(site.data_fs), *options)


def adopted(under_test: ClusterUnderTest, site: Site) -> str:
    """Adopt, which has to succeed and to leave the old site as it is; what was shown."""
    before = site.digests()
    done = adopt(under_test, site)
    assert (0, "") == (done.returncode, done.stderr), done.stdout
    assert before == site.digests()
    return done.stdout


def is_served(under_test: ClusterUnderTest) -> IndicoBrowser:
    """The cluster is healthy, and the owner of the old site can log in and see an event."""
    wait_until(
        lambda: under_test.cli("status").stdout.startswith("HEALTHY"), "the cluster is healthy"
    )
    browser = IndicoBrowser(under_test.cluster.indico[0].base_url)
    browser.log_in(OWNER["login"], OWNER["password"])
    assert title_of(browser.get("/event/0/"))
    return browser


def test_a_site_of_1_2_2_is_adopted_once_and_goes_back(
    under_test: ClusterUnderTest, site: Site, filled: OldSite, tmp_path: Path
) -> None:
    site.copy(filled)
    told = adopted(under_test, site)
    assert "written by Indico 1.2: no migration is needed" in told
    assert "6 events, 12 contributions, as in the original" in told
    title = title_of(is_served(under_test).get("/event/0/"))

    again = adopt(under_test, site)
    assert 0 == again.returncode
    assert again.stdout == told[told.index("Adopted ") :]
    (entry,) = [
        each
        for each in json.loads(under_test.cli("journal", "--json").stdout)
        if each["operation"] == "adopt"
    ]
    assert ("done", 6) == (entry["outcome"], entry["told"]["conferences"])

    under_test.down()
    back = tmp_path / "back.fs"
    (line,) = [each for each in told.splitlines() if WAY_BACK in each]
    command = shlex.split(line.partition("&&")[2].replace("NEW.fs", str(back)))
    subprocess.run(command, cwd=HOME, check=True, capture_output=True, timeout=PATIENCE)
    titles = json.loads(
        python27(site.conf, under_test.installation.python27, "-c", OPEN_PLAIN, back)
    )
    assert title.rpartition("  (")[0] in titles


@pytest.mark.parametrize("release", ["1.0", "1.1"])
def test_a_site_of_an_older_release_is_migrated_in_a_copy(
    under_test: ClusterUnderTest, site: Site, release: str
) -> None:
    site.make_older(release)
    told = adopted(under_test, site)
    assert f"written by Indico {release}: Indico's own migration runs on the copy" in told
    assert f"Indico {release} can only continue with {site.data_fs}" in " ".join(told.split())
    is_served(under_test)
    assert not Layout(under_test.cluster).adopting.exists()


def test_a_dry_run_names_missing_files_and_changes_nothing(
    under_test: ClusterUnderTest, site: Site
) -> None:
    site.make_older("1.1")
    before = site.digests()
    done = adopt(under_test, site, "--dry-run")
    assert (0, "") == (done.returncode, done.stderr)
    told = " ".join(done.stdout.split())
    assert "3 of 3 recorded files are missing" in told
    assert "settings that are replaced: ConfigurationDir, DBConnectionParams" in told
    assert "This was a dry run: nothing was changed." in told
    assert before == site.digests()
    assert not under_test.cluster.var_directory.exists()


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(lambda layout: (layout.adopting / "copied.fs").exists(), id="migration"),
        pytest.param(lambda layout: layout.supervisord_pid.exists(), id="start"),
    ],
)
def test_a_killed_adoption_is_continued(
    under_test: ClusterUnderTest, site: Site, stage: Callable[[Layout], bool]
) -> None:
    site.make_older("1.1")
    layout = Layout(under_test.cluster)
    process = subprocess.Popen(
        [HOME / "bin/zodbrepl", "-c", under_test.path, "adopt", "--from", site.data_fs],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    wait_until(lambda: stage(layout) or process.poll() is not None, "the adoption is running")
    process.send_signal(signal.SIGKILL)
    assert -signal.SIGKILL == process.wait(PATIENCE)
    assert "Continue the adoption of" in adopted(under_test, site)
    is_served(under_test)


def test_an_original_that_was_written_meanwhile_is_refused(
    under_test: ClusterUnderTest, site: Site, filled: OldSite
) -> None:
    site.copy(filled)
    adopted(under_test, site)
    under_test.down()
    values = json.loads(Layout(under_test.cluster).adoption.read_text())
    Layout(under_test.cluster).adoption.write_text(
        json.dumps({**values, "ended": None, "digest": "0" * 64})
    )
    done = adopt(under_test, site)
    assert ExitCode.REFUSED == done.returncode
    assert "the original Data.fs has changed since its adoption began" in done.stderr


def test_a_node_with_data_is_refused(
    under_test: ClusterUnderTest, site: Site, filled: OldSite
) -> None:
    site.copy(filled)
    file = data_fs(under_test.cluster.node("b"))
    file.parent.mkdir(parents=True)
    shutil.copy(filled.data_fs, file)
    before = file.read_bytes()
    done = adopt(under_test, site)
    assert ExitCode.REFUSED == done.returncode
    assert "DETAIL: node b has data already" in done.stderr
    assert before == file.read_bytes()


def test_a_damaged_data_fs_is_refused(
    under_test: ClusterUnderTest, site: Site, filled: OldSite
) -> None:
    site.copy(filled)
    content = bytearray(site.data_fs.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 5000] = bytes(5000)
    site.data_fs.write_bytes(content)
    done = adopt(under_test, site)
    assert ExitCode.REFUSED == done.returncode, done.stdout
    assert "NOTICE: the Data.fs cannot be adopted" in done.stderr
    assert not under_test.cluster.var_directory.exists()


def test_a_site_is_adopted_by_a_database_that_is_no_data_fs(tmp_path: Path, home: Path) -> None:
    with contextlib.closing(
        ClusterUnderTest(tmp_path, home, ALONE, ("one",), backend="relstorage-sqlite")
    ) as under_test:
        lines = under_test.path.read_text().splitlines(keepends=True)
        under_test.path.write_text("".join(each for each in lines if "storage-port" not in each))
        site = site_of(under_test)
        site.make_older("1.1")
        assert "into a cluster of backend filestorage" in adopted(under_test, site)
        is_served(under_test)
