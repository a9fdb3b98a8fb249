"""The checks before a service is installed."""

from __future__ import annotations

import dataclasses
import datetime
import getpass
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster import service as service_module
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.service import Account, Service
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import service_files

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
NOBODY = Account("nobody", "nogroup")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for that of a socket, unlike some of pytest's."""
    with tempfile.TemporaryDirectory(prefix="z-", dir="/tmp") as folder:
        yield Path(folder)


def service_in(home: Path) -> Service:
    return Service(load(EXAMPLE, home), Installation(home))


def refused(service: Service) -> OperatorError:
    with pytest.raises(OperatorError) as refusal:
        service_files.check(service, NOBODY)
    return refusal.value


def test_a_user_that_does_not_exist_is_named_with_the_command_that_makes_it() -> None:
    with pytest.raises(OperatorError) as refusal:
        service_files.account_of("indico-events")
    assert ExitCode.BAD_CONFIG is refusal.value.exit_code
    assert refusal.value.hint.startswith("adduser --system")


def test_root_is_refused_as_the_user_of_the_service() -> None:
    with pytest.raises(OperatorError) as refusal:
        service_files.account_of("root")
    assert ExitCode.REFUSED is refusal.value.exit_code


def test_the_group_is_the_users_own() -> None:
    assert NOBODY == service_files.account_of("nobody")


def test_a_socket_outside_of_the_var_directory_is_refused(tmp_path: Path) -> None:
    home = tmp_path / ("a" * 60) / ("b" * 60)
    error = refused(service_in(home))
    assert ExitCode.REFUSED is error.exit_code
    assert "too long" in error.notice


@as_root
def test_folders_of_another_user_are_refused_and_stay_theirs(short: Path) -> None:
    (short / "var").mkdir()
    cluster = load(EXAMPLE, short)
    service = Service(
        dataclasses.replace(cluster, var_directory=short / "var"), Installation(short)
    )
    error = refused(service)
    assert ExitCode.REFUSED is error.exit_code
    assert f"chown -R nobody:nogroup {short}/var" in error.hint
    assert getpass.getuser() == (short / "var").owner()


@as_root
def test_an_installation_that_the_user_cannot_read_is_refused(short: Path) -> None:
    home = short / "private"
    (home / "bin").mkdir(parents=True)
    (home / "bin/zodbrepl").write_text("#!/bin/sh\n")
    (home / "bin/zodbrepl").chmod(0o755)
    short.chmod(0o700)
    error = refused(service_in(home))
    assert ExitCode.NOT_INSTALLED is error.exit_code
    assert str(home / "bin/zodbrepl") in error.detail


@as_root
def test_a_unit_that_somebody_changed_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    told: list[str] = []
    unit = tmp_path / "zodbrepl-demo.service"
    unit.write_text("changed by hand")
    service_files.write(unit, "new", told.append)
    service_files.write(unit, "new", told.append)
    assert "new" == unit.read_text()
    assert "changed by hand" == unit.with_name("zodbrepl-demo.service.before").read_text()
    assert f"{unit} is as it should be" == told[-1]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The commands that are run, of a systemd that runs and has its units in a folder here."""
    run: list[str] = []
    monkeypatch.setattr(service_files, "UNITS", tmp_path / "units")
    monkeypatch.setattr(service_module, "UNITS", tmp_path / "units")
    monkeypatch.setattr(service_module, "TMPFILES", tmp_path / "tmpfiles")
    monkeypatch.setattr(service_files, "BOOTED", tmp_path)
    monkeypatch.setattr(service_files, "_run", lambda command: run.append(" ".join(command)))
    monkeypatch.setattr(service_files, "_is_active", lambda _unit: False)
    return run


def scheduled(service: Service) -> Service:
    changed = dataclasses.replace(service.cluster, backup_time=datetime.time(3))
    return dataclasses.replace(service, cluster=changed)


def put_in(service: Service, told: list[str], units: Path) -> list[str]:
    """Install a service; the names of the units that are there then."""
    account = Account(getpass.getuser(), getpass.getuser())
    files = service.files(account, "install-service", ())
    service_files.install(service, account, files, told.append)
    return sorted(path.name for path in units.iterdir())


DISABLE = "systemctl disable --now --quiet zodbrepl-demo-backup.timer"


def test_the_timer_of_backups_is_stopped_and_removed_when_the_schedule_is_gone(
    tmp_path: Path, commands: list[str]
) -> None:
    told: list[str] = []
    service, units = service_in(tmp_path), tmp_path / "units"
    assert [
        "zodbrepl-demo-backup.service",
        "zodbrepl-demo-backup.timer",
        "zodbrepl-demo.service",
    ] == put_in(scheduled(service), told, units)
    assert DISABLE not in commands
    assert ["zodbrepl-demo.service"] == put_in(service, told, units)
    assert commands.index(DISABLE) < commands.index("systemctl daemon-reload", 3)
    assert f"removed {tmp_path}/units/zodbrepl-demo-backup.timer" in told
    del commands[:]
    put_in(service, told, units)
    assert DISABLE not in commands


@as_root
@pytest.mark.parametrize("has_schedule", [True, False])
def test_the_timer_of_backups_is_removed_with_the_service(
    tmp_path: Path, commands: list[str], has_schedule: bool
) -> None:
    service, units = service_in(tmp_path), tmp_path / "units"
    put_in(scheduled(service), [], units)
    service_files.remove(scheduled(service) if has_schedule else service, lambda _line: None)
    assert [] == [*units.iterdir()]
    assert DISABLE in commands


def test_the_service_of_a_cluster_whose_name_ends_in_backup_stays(
    tmp_path: Path, commands: list[str]
) -> None:
    service, units = service_in(tmp_path), tmp_path / "units"
    other = dataclasses.replace(
        service, cluster=dataclasses.replace(service.cluster, name="demo-backup")
    )
    put_in(other, [], units)
    expected = ["zodbrepl-demo-backup.service", "zodbrepl-demo.service"]
    assert expected == put_in(service, [], units)
    assert DISABLE not in commands
