"""The sdist and the wheel hold everything: both serve in folders outside the clone.

Packages come from the kept folder of this clone, without network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest
from clusters import free_ports, wait_until
from test_setup import links_or_copy, offline

from indico_zodbrepl import __version__
from indico_zodbrepl.setup.stamps import sha256_of

pytestmark = pytest.mark.exhaustive

HOME = Path(__file__).resolve().parents[2]
TIME_LIMIT = 600.0
BUILD = """
import sys
from setuptools import build_meta
getattr(build_meta, sys.argv[1])(sys.argv[2])
"""
BUILDOUT = """\
[buildout]
parts = {parts}
find-links = {dist}
index = {dist}
newest = false

[indico]
recipe = indico_zodbrepl
{options}
"""
FIRST_RUN = "indico_zodbrepl.dataplane.indico.firstrun"
OWN_PATCH = """\
Says who runs this site.

--- a/indico/of_this_site.py
+++ b/indico/of_this_site.py
@@ -0,0 +1 @@
+NAME = 'events'
"""
ADMIN = {
    "login": "ada",
    "password": "of this test",
    "email": "ada@example.org",
    "first_name": "Ada",
    "last_name": "Admin",
}
CARRIED = (
    "indico_zodbrepl/files/bulkloader/__main__.py",
    "indico_zodbrepl/files/etc/backup/indico-backup",
    "indico_zodbrepl/files/etc/cluster.conf",
    "indico_zodbrepl/files/etc/nginx/indico.conf",
    "indico_zodbrepl/files/etc/haproxy/indico.cfg",
    "indico_zodbrepl/files/etc/prometheus/alerts.yml",
    "indico_zodbrepl/files/etc/prometheus/grafana-dashboard.json",
    "indico_zodbrepl/files/etc/prometheus/prometheus.yml",
    "indico_zodbrepl/files/patches/indico-1.2.2/series",
    "indico_zodbrepl/cluster/schema.xml",
    "indico_zodbrepl/setup/requirements-2.7.txt",
    "indico_zodbrepl/setup/requirements-3.txt",
)


class Place:
    """An empty folder with what runs there."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.environ = environ

    def run(self, *command: str | Path, code: int = 0) -> str:
        """Run a command in the folder; return all it wrote."""
        finished = self._finished(*command)
        assert code == finished.returncode, finished.stdout
        return finished.stdout

    def succeeds(self, *command: str | Path) -> bool:
        """Run a command in the folder; tell whether its exit code is 0."""
        return self._finished(*command).returncode == 0

    def _finished(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIME_LIMIT,
        )

    def keep_downloads(self, *path: str) -> None:
        shutil.copytree(
            HOME / "downloads",
            self.folder.joinpath(*path),
            copy_function=links_or_copy,
            ignore=shutil.ignore_patterns(".*"),
        )


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that was made of it alone."""
    made, unpacked = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("unpacked")
    copy = unpacked / "clone"
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=HOME, capture_output=True, text=True, check=True
    ).stdout
    for name in tracked.split("\0")[:-1]:
        if (HOME / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HOME / name, copy / name)
    _build(copy, "build_sdist", made)
    (sdist,) = made.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked / "sdist", filter="data")
    (release,) = (unpacked / "sdist").iterdir()
    _build(release, "build_wheel", made)
    return made


def _build(folder: Path, what: str, made: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", BUILD, what, made], cwd=folder, check=True, capture_output=True
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    hidden = ("ZODBREPL_HOME", "ZODBREPL_CLUSTER", "INDICO_CONF", "PYTHONPATH")
    environ = {name: text for name, text in offline(tmp_path).items() if name not in hidden}
    folder = tmp_path / "empty"
    folder.mkdir()
    return Place(folder, environ)


@pytest.fixture
def with_buildout(place: Place) -> Place:
    """A place whose Python 3 has zc.buildout and nothing of ours."""
    _make_python(place, "zc.buildout", "setuptools", "wheel")
    place.keep_downloads("downloads", "indico_zodbrepl")
    return place


def _make_python(place: Place, *packages: str) -> None:
    place.run(sys.executable, "-m", "venv", "venv")
    kept = HOME / "downloads/wheels-3"
    place.run("venv/bin/pip", "install", "-q", "--no-index", "--find-links", kept, *packages)


def _give_ports(cluster: Path) -> str:
    """Give a cluster file free ports; return the address of its first Indico."""
    text = cluster.read_text()
    named = re.findall(r"port (\d+)", text)
    ports = dict(zip(named, free_ports(len(named)), strict=True))
    cluster.write_text(re.sub(r"port (\d+)", lambda found: f"port {ports[found[1]]}", text))
    return f"http://127.0.0.1:{ports['8101']}/indico/"


def _check_that_it_works(place: Place, commands: Path, url: str) -> None:
    """The main job: Indico on a pair, with conferences, and a state that is healthy."""
    try:
        place.run(commands / "zodbrepl", "up")
        account = place.folder / "admin.json"
        account.write_text(json.dumps(ADMIN))
        account.chmod(0o600)
        place.run(commands / "indico-python", "-m", FIRST_RUN, "--admin-file", account)
        place.run(commands / "bulkload", "--conferences", "3", "--contributions", "2")
        wait_until(lambda: place.succeeds(commands / "zodbrepl", "status"), "all is well")
        assert "HEALTHY" in place.run(commands / "zodbrepl", "status")
        with urllib.request.urlopen(url, timeout=60) as page:  # noqa: S310 - our own server
            assert "Indico" in page.read().decode()
    finally:
        place.run(commands / "zodbrepl", "down")


def test_the_wheel_of_the_sdist_carries_all_that_an_installation_is_made_of(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert set(CARRIED) <= set(archive.namelist())


def test_pip_and_one_command_install_a_cluster_that_runs_indico(place: Place, dist: Path) -> None:
    _make_python(place, "--find-links", str(dist), "indico_zodbrepl[control]")
    refusal = place.run("venv/bin/zodbrepl", "status", code=4)
    assert "HINT: install with: zodbrepl setup --home DIR" in refusal
    home = place.folder / "home"
    place.keep_downloads("home", "downloads")
    assert "setup: done" in place.run("venv/bin/zodbrepl", "setup", "--home", home)
    url = _give_ports(home / "etc/cluster.conf")
    place.run("venv/bin/zodbrepl", "setup", "--home", home)
    repeated = place.run("venv/bin/zodbrepl", "setup", "--home", home)
    assert "setup: everything is up to date\n" == repeated
    shutil.rmtree(place.folder / "venv")
    _check_that_it_works(place, home / "bin", url)


def _own_options(place: Place) -> str:
    """Give the place a package and a patch of its own; return the options that name them."""
    (wheel,) = (HOME / "downloads/wheels-3").glob("sortedcontainers-*.whl")
    shutil.copy(wheel, next(place.folder.glob("downloads/*/wheels-2.7*")))
    version = wheel.name.split("-")[1]
    patches = place.folder / "patches"
    patches.mkdir()
    (patches / "series").write_text("name.patch\n")
    (patches / "name.patch").write_text(OWN_PATCH)
    return (
        f"eggs = sortedcontainers=={version} --hash=sha256:{sha256_of(wheel)}\n"
        "patches = patches\nindico-version = 1.2.2\n"
    )


def test_a_foreign_buildout_has_it_as_a_part_and_removes_only_programs(
    with_buildout: Place, dist: Path
) -> None:
    place, config = with_buildout, with_buildout.folder / "buildout.cfg"
    own = _own_options(place)

    def buildout(*arguments: str, parts: str = "indico", options: str = "", code: int = 0) -> str:
        config.write_text(BUILDOUT.format(parts=parts, dist=dist, options=own + options))
        return place.run("venv/bin/buildout", *arguments, code=code)

    buildout()
    show = "import sortedcontainers, indico.of_this_site; print(indico.of_this_site.NAME)"
    assert "events\n" == place.run("bin/indico-python", "-c", show)
    cluster = place.folder / "etc/cluster.conf"
    url = _give_ports(cluster)
    buildout("-n")
    rendered = place.folder / "parts/indico/rendered"
    assert list(rendered.rglob("supervisord.conf"))
    _check_that_it_works(place, place.folder / "bin", url)
    refusal = buildout(options="clutser = x", code=2)
    assert "NOTICE: the part indico has an unknown option: clutser" in refusal
    assert f"zodbrepl {__version__}\n" == place.run("bin/zodbrepl", "--version")
    buildout(parts="")
    assert not (place.folder / "parts/indico").exists()
    assert not os.path.lexists(place.folder / "bin/zodbrepl")
    assert cluster.is_file()
    assert (place.folder / "var/node/a").is_dir()


def test_data_in_the_folder_that_buildout_removes_are_refused(
    with_buildout: Place, dist: Path
) -> None:
    place = with_buildout
    shutil.copy(HOME / "etc/cluster.conf", place.folder / "cluster.conf")
    (place.folder / "buildout.cfg").write_text(
        BUILDOUT.format(parts="indico", dist=dist, options="cluster = cluster.conf")
    )
    refusal = place.run("venv/bin/buildout", code=8)
    assert "NOTICE: the cluster's data would lie in the part's folder" in refusal
