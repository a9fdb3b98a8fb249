"""``./bootstrap --install-python27``: install CPython 2.7 from the last Debian suite that has it.

apt runs with its own configuration in a temporary folder: the machine's sources plus that suite,
with pins that admit only the packages of Python 2.7. The machine's own sources, pins and package
lists are not changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup.processes import run

SUITE = "bullseye"
SOURCES = Path("/etc/apt")
MIRROR = re.compile(r"https?://[^\s\]]+/debian/?(?=\s|$)")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = ("python2.7", "python2.7-dev")
FROM_SUITE = (
    "python2.7",
    "python2.7-*",
    "libpython2.7",
    "libpython2.7-*",
    "libssl1.1",
    "libffi7",
    "mime-support",
    "mailcap",
)

HINT = "run ./bootstrap without --install-python27: it lists other ways"


def why_not(os_release: str, user: int, has_apt: bool) -> str:
    """Return why Python 2.7 cannot be installed this way; empty if it can.

    Args:
        os_release: text of /etc/os-release.
        user: effective user id.
        has_apt: whether apt-get is there.
    """
    name = re.search(r'^ID="?([^"\n]*)', os_release, re.MULTILINE)
    if not name or name[1] != "debian":
        return f"this is {name[1] if name else 'an unknown system'}, not Debian"
    if not has_apt:
        return "there is no apt-get"
    if user != 0:
        return "only root may install packages"
    return ""


def mirrors(sources_texts: Iterable[str]) -> list[str]:
    """Return the Debian mirrors in apt's sources, without duplicates and comments."""
    lines = (line.partition("#")[0] for text in sources_texts for line in text.splitlines())
    found = (match.rstrip("/") for line in lines for match in MIRROR.findall(line))
    return list(dict.fromkeys(found))


def sources(mirror: str) -> str:
    """Return the suite as a line of apt's sources."""
    return f"deb [signed-by={KEYRING}] {mirror} {SUITE} main\n"


def preferences() -> str:
    """Return pins that admit only ``FROM_SUITE``, and only if no other suite has it."""
    return (
        f"Package: *\nPin: release n={SUITE}\nPin-Priority: -1\n\n"
        f"Package: {' '.join(FROM_SUITE)}\nPin: release n={SUITE}\nPin-Priority: 400\n"
    )


def install_python27() -> None:
    """Install Python 2.7 and its headers.

    Raises:
        OperatorError: this is not Debian or the user is not root (REFUSED, nothing was tried), or
            apt failed.
    """
    release = Path("/etc/os-release")
    reason = why_not(
        release.read_text() if release.is_file() else "",
        os.geteuid(),
        shutil.which("apt-get") is not None,
    )
    if reason:
        raise OperatorError("--install-python27 does not work here", reason, HINT, ExitCode.REFUSED)
    print(f"setup: installing {' '.join(PACKAGES)} from Debian {SUITE}", flush=True)
    files = (SOURCES / "sources.list", *sorted((SOURCES / "sources.list.d").glob("*")))
    failures = []
    for mirror in mirrors(path.read_text() for path in files if path.is_file()):
        with tempfile.TemporaryDirectory(prefix="apt-python27-") as folder:
            try:
                _install(Path(folder), mirror)
                return
            except OperatorError as error:
                failures.append(f"{mirror}: {error.detail}")
    raise OperatorError(
        f"apt could not install Python 2.7 from Debian {SUITE}",
        "\n".join(failures) or f"the sources in {SOURCES} name no Debian mirror",
        f"add a mirror that has {SUITE} (Debian's archive keeps it) to apt's sources, or {HINT}",
    )


def _install(folder: Path, mirror: str) -> None:
    environ = {
        **os.environ,
        "APT_CONFIG": str(configuration(folder, mirror)),
        "DEBIAN_FRONTEND": "noninteractive",
        "LC_ALL": "C.UTF-8",
    }
    run(["apt-get", "update", "-q"], "update the package lists", environ)
    command = [
        "apt-get",
        "install",
        "-q",
        "-y",
        "--no-install-recommends",
        "--no-remove",
        *PACKAGES,
    ]
    run([*command, "--simulate"], "resolve the packages", environ)
    run(command, "install the packages", environ)
    subprocess.run(
        ["/usr/bin/python2.7", "--version"],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )


def configuration(folder: Path, mirror: str) -> Path:
    """Write an apt configuration: the machine's sources and pins plus ours; return its path."""
    folder.chmod(0o755)
    for kind in ("sources.list.d", "preferences.d"):
        (folder / kind).mkdir()
        for path in (*Path("/etc/apt", kind).glob("*"), Path("/etc/apt", kind.removesuffix(".d"))):
            if path.is_file():
                suffix = "" if path.suffix else ".list" if kind == "sources.list.d" else ".pref"
                shutil.copy(path, folder / kind / f"{path.name}{suffix}")
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "sources.list.d/python27.list").write_text(sources(mirror))
    (folder / "preferences.d/python27.pref").write_text(preferences())
    configuration = folder / "apt.conf"
    configuration.write_text(f"""\
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{folder}/sources.list.d";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "{folder}/preferences.d";
Dir::State::lists "{folder}/lists";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
""")
    return configuration
