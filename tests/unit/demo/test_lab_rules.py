"""The rules of nft that make a lab's faults, the mounts of its hosts, and what it requires."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.demo.lab import faults, requirements
from indico_zodbrepl.demo.lab.faults import Drop
from indico_zodbrepl.demo.lab.host import mounts
from indico_zodbrepl.demo.lab.namespaces import Mount
from indico_zodbrepl.errors import ExitCode, OperatorError


@pytest.mark.parametrize(
    ("drops", "rules"),
    [
        (set(), []),
        (
            faults.isolation("h1"),
            ['oifname { "h1", "h1-line" } drop', 'iifname { "h1", "h1-line" } drop'],
        ),
        (
            faults.cut("h1", "h2"),
            [
                'iifname { "h1", "h1-line" } oifname { "h2", "h2-line" } drop',
                'iifname { "h2", "h2-line" } oifname { "h1", "h1-line" } drop',
            ],
        ),
        (
            faults.loss("h1", 30),
            [
                'oifname { "h1", "h1-line" } numgen random mod 100 < 30 drop',
                'iifname { "h1", "h1-line" } numgen random mod 100 < 30 drop',
            ],
        ),
        (
            faults.block("h1", [2380, 2379]),
            [
                'oifname { "h1", "h1-line" } ip protocol tcp tcp dport { 2379, 2380 } drop',
                'oifname { "h1", "h1-line" } ip protocol tcp tcp sport { 2379, 2380 } drop',
                'iifname { "h1", "h1-line" } ip protocol tcp tcp dport { 2379, 2380 } drop',
                'iifname { "h1", "h1-line" } ip protocol tcp tcp sport { 2379, 2380 } drop',
            ],
        ),
    ],
    ids=["none", "isolation", "cut", "loss", "ports"],
)
def test_faults_become_rules_in_place_of_all_earlier_ones(
    drops: set[Drop], rules: list[str]
) -> None:
    lines = [line.strip() for line in faults.ruleset(drops).splitlines()]
    assert ["table bridge faults", "delete table bridge faults"] == lines[:2]
    assert rules == [line for line in lines if line.endswith("drop")]


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_what_is_no_percentage_is_refused(percent: int) -> None:
    with pytest.raises(ValueError, match="not a percentage"):
        faults.loss("h1", percent)


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        faults.Speed(delay_ms=-1)


def test_a_host_sees_its_data_in_a_folder_that_all_have_and_an_installation_below_tmp() -> None:
    temporary = Path("/tmp")  # noqa: S108
    lab, clone = temporary / "lab", temporary / "clone"
    shown = [clone, Path("/opt/clone"), clone]
    found = mounts(lab, lab / "h1", lab / "hosts", shown, lab / "srv")
    assert [
        Mount(str(clone), str(clone)),
        Mount(str(lab), options="mode=755"),
        Mount(str(lab / "srv"), str(lab / "h1")),
        Mount("/etc/hosts", str(lab / "hosts")),
    ] == list(found[3:])
    assert {"/tmp", "/run", "/dev/shm"} == {each.target for each in found[:3]}  # noqa: S108


def test_missing_programs_are_named_with_their_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "unshare").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(requirements, "SYSTEM_PATH", str(tmp_path))
    with pytest.raises(OperatorError) as refused:
        requirements.require()
    assert ("not found: ip, nft", "as root: apt-get install iproute2 nftables") == (
        refused.value.detail,
        refused.value.hint,
    )
    assert ExitCode.NOT_INSTALLED == refused.value.exit_code
