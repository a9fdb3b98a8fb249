"""The unit and the tmpfiles.d file of a service, read by systemd's own programs."""

from __future__ import annotations

import dataclasses
import datetime
import getpass
import shutil
import subprocess
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.service import UNITS, Account, Service, outermost

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
ACCOUNT = Account(getpass.getuser(), getpass.getuser())
COMMAND = "bin/zodbrepl install-service"

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is missing: apt-get install systemd"
)


def service_in(home: Path) -> Service:
    return Service(load(EXAMPLE, home), Installation(home))


def moved(cluster: Cluster, folder: Path) -> Cluster:
    """The cluster with its second node's data elsewhere."""
    first, second = cluster.nodes
    return dataclasses.replace(
        cluster, nodes=(first, dataclasses.replace(second, data_directory=folder))
    )


def unit_of(service: Service, *programs: Path) -> list[str]:
    return service.files(ACCOUNT, COMMAND, programs)[service.unit_file].splitlines()


@needs_systemd
@pytest.mark.parametrize("name", ["zodbrepl", "two words, a=b (c): d"])
def test_systemd_finds_nothing_wrong_in_the_unit(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    (home / "bin").mkdir(parents=True)
    (home / "bin/zodbrepl").touch(0o755)
    service = service_in(home)
    unit = tmp_path / service.unit
    unit.write_text(service.files(ACCOUNT, COMMAND, ())[service.unit_file])
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    own = [line for line in done.stderr.splitlines() if service.unit in line]
    assert [] == own


def on_hosts(service: Service) -> Service:
    """The cluster on two hosts, of which this is the first, with its file in /etc."""
    first, second = service.cluster.nodes
    return dataclasses.replace(
        service,
        cluster=dataclasses.replace(
            service.cluster,
            source=Path("/etc/zodbrepl/demo.conf"),
            hosts=(ClusterHost("one", "10.77.0.11", 8300), ClusterHost("two", "10.77.0.12", 8300)),
            here="one",
            nodes=(
                dataclasses.replace(first, on="one"),
                dataclasses.replace(second, on="two", data_directory=Path("/disk2/b")),
            ),
        ),
    )


@needs_systemd
def test_systemd_finds_nothing_wrong_in_the_units_of_a_host(tmp_path: Path) -> None:
    home = tmp_path / "zodbrepl"
    (home / "bin").mkdir(parents=True)
    (home / "bin/zodbrepl").touch(0o755)
    service = on_hosts(service_in(home))
    files = service.files(ACCOUNT, COMMAND, ())
    units = [tmp_path / unit for unit in service.units]
    for unit in units:
        unit.write_text(files[UNITS / unit.name])
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert [] == [line for line in done.stderr.splitlines() if "zodbrepl-demo" in line]


def test_the_service_of_a_host_starts_after_its_agent_and_stops_this_host_alone(
    tmp_path: Path,
) -> None:
    service = on_hosts(service_in(tmp_path))
    lines = unit_of(service)
    assert any(
        line.startswith("Wants=") and "zodbrepl-demo-agent.service" in line for line in lines
    )
    assert any(
        line.startswith("After=") and "zodbrepl-demo-agent.service" in line for line in lines
    )
    (stop,) = (line for line in lines if line.startswith("ExecStop="))
    assert " down --this-host --reason " in stop
    assert not any("agent" in line for line in unit_of(service_in(tmp_path)))


def test_the_agent_ends_without_what_it_has_started_and_may_replace_the_cluster_file(
    tmp_path: Path,
) -> None:
    service = on_hosts(service_in(tmp_path))
    files = service.files(ACCOUNT, COMMAND, ())
    agent = files[UNITS / service.agent_unit].splitlines()
    assert {"KillMode=process", "Restart=on-failure", "StartLimitIntervalSec=0"} <= {*agent}
    for lines in (agent, unit_of(service)):
        (writable,) = (line for line in lines if line.startswith("ReadWritePaths="))
        assert " -/etc/zodbrepl" in writable
        assert "/disk2" not in writable, "the data of another host"


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="systemd is missing")
@pytest.mark.parametrize("name", ["zodbrepl", "two words, a=b (c): d"])
def test_tmpfiles_makes_the_folder_of_the_cluster_for_its_user_alone_and_a_link_to_the_logs(
    tmp_path: Path, name: str
) -> None:
    home = tmp_path / name
    home.mkdir()
    service = service_in(home)
    text = service.files(ACCOUNT, COMMAND, ())[service.tmpfiles]
    logs = tmp_path / "logs"
    conf = tmp_path / "own.conf"
    conf.write_text(text.replace("/var/log/zodbrepl", str(logs)))
    subprocess.run(["systemd-tmpfiles", "--create", conf], check=True, timeout=100)
    assert 0o700 == (home / "var").stat().st_mode & 0o777
    assert home / "var/log" == (logs / "demo").readlink()


def test_the_service_may_write_where_the_folders_of_the_cluster_are_and_nowhere_else(
    tmp_path: Path,
) -> None:
    service = service_in(tmp_path)
    assert (tmp_path / "var",) == service.folders
    assert f"ReadWritePaths={tmp_path}" in unit_of(service)


def test_a_folder_directly_below_the_root_does_not_make_all_writable(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    top = dataclasses.replace(service, cluster=moved(service.cluster, Path("/zodb")))
    assert f"ReadWritePaths={tmp_path} -/zodb" in unit_of(top)


def test_a_missing_folder_of_a_node_does_not_keep_the_others_from_starting(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    two = dataclasses.replace(service, cluster=moved(service.cluster, Path("/disk2/b")))
    lines = unit_of(two)
    assert f"ReadWritePaths={tmp_path} -/disk2" in lines
    (needed,) = (line for line in lines if line.startswith("RequiresMountsFor="))
    assert "/disk2" not in needed


def test_homes_are_hidden_unless_something_of_the_cluster_is_there(tmp_path: Path) -> None:
    service = Service(load(EXAMPLE, tmp_path), Installation(tmp_path))
    used = dataclasses.replace(service.cluster, source=Path("/etc/zodbrepl/events.conf"))
    assert "ProtectHome=yes" in unit_of(dataclasses.replace(service, cluster=used))
    for program in ("/home/indico/bin/python2.7", "/root/.pyenv/python"):
        assert "ProtectHome=read-only" in unit_of(service, Path(program))


def test_the_service_runs_as_its_user_and_gains_no_privilege(tmp_path: Path) -> None:
    lines = unit_of(service_in(tmp_path))
    assert f"User={ACCOUNT.user}" in lines
    assert "NoNewPrivileges=yes" in lines
    assert "CapabilityBoundingSet=" in lines


def test_folders_inside_of_others_and_repeated_ones_are_left_out() -> None:
    given = map(Path, ("/a", "/a/b", "/c/d", "/c/d", "/cc"))
    assert tuple(map(Path, ("/a", "/c/d", "/cc"))) == outermost(given)


def scheduled(service: Service, host: str | None = None) -> Service:
    """The service of a cluster with a daily backup at half past one."""
    return dataclasses.replace(
        service,
        cluster=dataclasses.replace(
            service.cluster,
            backup_time=datetime.time(1, 30),
            backup_directory=Path("/backup/indico"),
            backup_host=host,
        ),
    )


@needs_systemd
@pytest.mark.parametrize("name", ["zodbrepl", "two words, a=b (c): d"])
@pytest.mark.parametrize("several", [False, True])
def test_systemd_finds_nothing_wrong_in_the_units_of_backups(
    tmp_path: Path, name: str, several: bool
) -> None:
    home = tmp_path / name
    (home / "bin").mkdir(parents=True)
    (home / "bin/zodbrepl").touch(0o755)
    service = scheduled(service_in(home))
    if several:
        service = scheduled(on_hosts(service), "one")
    units = [tmp_path / path.name for path in service.files(ACCOUNT, COMMAND, ())]
    for path, text in service.files(ACCOUNT, COMMAND, ()).items():
        (tmp_path / path.name).write_text(text)
    assert {service.backup_unit, service.backup_timer} <= {unit.name for unit in units}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(u for u in units if u.suffix != ".conf")],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert [] == [line for line in done.stderr.splitlines() if "zodbrepl-demo" in line]


def test_a_timer_starts_the_backup_daily_and_after_the_host_was_down(tmp_path: Path) -> None:
    service = scheduled(service_in(tmp_path))
    files = service.files(ACCOUNT, COMMAND, ())
    timer = files[UNITS / "zodbrepl-demo-backup.timer"].splitlines()
    assert {"OnCalendar=*-*-* 01:30:00 UTC", "Persistent=true"} <= {*timer}
    assert "WantedBy=timers.target" in timer
    assert ("zodbrepl-demo.service", "zodbrepl-demo-backup.timer") == service.enabled


def test_a_scheduled_backup_runs_as_the_user_of_the_cluster_in_the_same_sandbox(
    tmp_path: Path,
) -> None:
    service = scheduled(service_in(tmp_path))
    files = service.files(ACCOUNT, COMMAND, ())
    lines = files[UNITS / "zodbrepl-demo-backup.service"].splitlines()
    (start,) = (line for line in lines if line.startswith("ExecStart="))
    assert start.endswith(f" -c {service.cluster.source} backup --reason schedule")
    own = {"Type=oneshot", f"User={ACCOUNT.user}", f"Group={ACCOUNT.group}"}
    assert own <= {*lines}
    unit = unit_of(service)
    sandbox = lines[lines.index("UMask=0077") :]
    assert sandbox == unit[unit.index("UMask=0077") : unit.index("[Install]") - 1]
    (writable,) = (line for line in lines if line.startswith("ReadWritePaths="))
    assert writable.endswith(" -/backup")
    (needed,) = (line for line in lines if line.startswith("RequiresMountsFor="))
    assert needed.endswith(" /backup/indico"), "nothing is written below a disk's mount point"


def test_a_cluster_without_a_schedule_has_no_timer(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    assert not [path for path in service.files(ACCOUNT, COMMAND, ()) if "backup" in path.name]
    assert service.units == service.enabled


def test_of_several_hosts_the_one_with_the_folder_of_backups_has_the_timer(
    tmp_path: Path,
) -> None:
    on = on_hosts(service_in(tmp_path))
    for folder_on, expected in (("one", True), ("two", False)):
        service = scheduled(on, folder_on)
        found = {path.name for path in service.files(ACCOUNT, COMMAND, ())}
        assert ("zodbrepl-demo-backup.timer" in found) is expected
        assert (service.backup_timer in service.enabled) is expected
