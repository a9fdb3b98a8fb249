"""The firewall in docs/how-to/production.md, checked by a real nft."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

NFT = shutil.which("nft", path="/usr/sbin:/usr/bin")
UNSHARE = shutil.which("unshare")
# In a network namespace of its own, nothing of this machine is changed.
ISOLATED = [str(UNSHARE), "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def namespaces_work() -> bool:
    return (
        UNSHARE is not None
        and subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0
    )


pytestmark = pytest.mark.skipif(
    NFT is None or not namespaces_work(),
    reason="nft is missing (apt-get install nftables), or network namespaces are not allowed",
)


@pytest.fixture
def rules(home: Path, tmp_path: Path) -> Path:
    """The example as a file."""
    page = (home / "docs/how-to/production.md").read_text()
    begin = page.index("    table inet filter {")
    path = tmp_path / "firewall.nft"
    path.write_text(textwrap.dedent(page[begin : page.index("\n    }\n", begin) + 7]))
    return path


def nft(*arguments: str) -> list[str]:
    return [*ISOLATED, str(NFT), *arguments]


def test_nft_accepts_the_example(rules: Path) -> None:
    done = subprocess.run(nft("-c", "-f", str(rules)), capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


def test_loaded_it_drops_all_but_ssh_https_and_what_is_local(rules: Path) -> None:
    script = 'nft -f "$1" && nft list ruleset'
    done = subprocess.run(
        [*ISOLATED, "sh", "-c", script, "sh", str(rules)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/bin"},
    )
    assert 0 == done.returncode, done.stderr
    assert "policy drop" in done.stdout
    assert 'iif "lo" accept' in done.stdout
    assert "tcp dport { 22, 443 } accept" in done.stdout
