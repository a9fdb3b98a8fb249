"""Find and download files from the package index with pip's settings (pip.conf, PIP_*, netrc).

pip's command line cannot download a source release without running its setup.py, and cannot
choose wheels for Python 2.7 from Python 3. So this module uses pip's internals: ``.venv`` has
exactly one pinned version of pip, and tests cover every call.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from optparse import Values
from pathlib import Path

from pip._internal.commands.download import DownloadCommand
from pip._internal.exceptions import PipError
from pip._internal.index.package_finder import PackageFinder
from pip._internal.models.target_python import TargetPython
from pip._internal.network.session import PipSession
from pip._internal.network.utils import response_chunks
from pip._vendor.packaging.version import Version
from pip._vendor.requests.exceptions import RequestException
from pip._vendor.urllib3.exceptions import HTTPError

from indico_zodbrepl.setup.pins import Pin, normal_name
from indico_zodbrepl.setup.processes import explain

CONNECTIONS = 4
PARTIAL = ".fetching-"


@dataclass(frozen=True)
class Target:
    """The interpreter that the files are for: version, ABI tag and platform tags."""

    version: tuple[int, ...]
    abi: str
    platforms: tuple[str, ...]


@dataclass(frozen=True)
class IndexFile:
    """A file of a pinned release on the index."""

    pin: Pin
    filename: str
    url: str
    sha256: str

    @property
    def is_wheel(self) -> bool:
        """Return True for a wheel; any other file must be built."""
        return self.filename.endswith(".whl")


class Index:
    """The package index that pip is configured for.

    Args:
        target: the interpreter to choose files for.
    """

    def __init__(self, target: Target) -> None:
        # pip reports each index that lacks a project; that is not an error.
        logging.getLogger("pip").setLevel(logging.ERROR)
        self._target = target
        self._command = DownloadCommand("download", "")
        self._options: Values = self._command.parse_args(["-q", "--no-input"])[0]

    def find(self, pins: Sequence[Pin]) -> list[IndexFile]:
        """Return the best file of each pinned release: a wheel for the target, else the source.

        Files without a pinned SHA-256 are ignored.

        Raises:
            OperatorError: the index does not answer, or has no suitable file of a release.
        """
        groups = [list(pins[number::CONNECTIONS]) for number in range(CONNECTIONS)]
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            return [file for found in pool.map(self._find, groups) for file in found]

    def fetch(self, files: Sequence[IndexFile], folder: Path) -> None:
        """Download files into a folder, except those already there.

        Raises:
            OperatorError: a download failed, or a file does not match its pin.
        """
        groups = [list(files[number::CONNECTIONS]) for number in range(CONNECTIONS)]
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(lambda group: self._fetch(group, folder), groups))

    def _session(self) -> PipSession:
        return self._command._build_session(self._options)

    def _find(self, pins: Sequence[Pin]) -> list[IndexFile]:
        target = TargetPython(
            platforms=list(self._target.platforms),
            py_version_info=self._target.version,
            abis=[self._target.abi],
            implementation="cp",
        )
        with self._session() as session:
            finder = self._command._build_package_finder(
                self._options, session, target, ignore_requires_python=True
            )
            return [_best_file(finder, pin) for pin in pins]

    def _fetch(self, files: Sequence[IndexFile], folder: Path) -> None:
        with self._session() as session:
            for file in files:
                if not (folder / file.filename).exists():
                    _fetch_one(session, file, folder)


def _best_file(finder: PackageFinder, pin: Pin) -> IndexFile:
    try:
        # The hash identifies the file of a release; links without a hash cannot be used.
        usable = [
            candidate
            for candidate in finder.find_all_candidates(pin.name)
            if candidate.version == Version(pin.version)
            and candidate.link.hash_name == "sha256"
            and candidate.link.hash in pin.hashes
        ]
    except (PipError, RequestException) as error:
        raise explain(f"find {pin} on the package index", f"ERROR: {error}") from error
    if not usable:
        reason = f"ERROR: No matching distribution found for {pin} with a pinned SHA-256"
        raise explain(f"find {pin} on the package index", reason)
    link = max(usable, key=finder.make_candidate_evaluator(pin.name)._sort_key).link
    return IndexFile(pin, link.filename, link.url_without_fragment, link.hash or "")


def _fetch_one(session: PipSession, file: IndexFile, folder: Path) -> None:
    partial = folder / f"{PARTIAL}{file.filename}"
    what = f"fetch {file.filename}"
    try:
        digest = _copy(session, file.url, partial)
    except (PipError, RequestException, HTTPError) as error:
        raise explain(what, f"ERROR: ConnectionError: {error}") from error
    if digest != file.sha256:
        partial.unlink()
        raise explain(what, f"hash mismatch\nExpected sha256 {file.sha256}\nGot        {digest}")
    partial.replace(folder / file.filename)


def _copy(session: PipSession, url: str, path: Path) -> str:
    """Download a file to a path and return its SHA-256."""
    digest = hashlib.sha256()
    with session.get(url, headers={"Accept-Encoding": "identity"}, stream=True) as response:
        response.raise_for_status()
        with path.open("wb") as copy:
            for chunk in response_chunks(response):
                digest.update(chunk)
                copy.write(chunk)
    return digest.hexdigest()


def wheel_key(filename: str) -> tuple[str, str]:
    """Return the normalised name and the version of a wheel, comparable with ``Pin.key``."""
    name, version = filename.split("-")[:2]
    return normal_name(name), version
