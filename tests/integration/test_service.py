"""The cluster as a service: `zodbrepl run`, and its unit under a real systemd."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, free_ports, wait_until
from machines import Machine, booted, lacking

SECONDS = 300
UNIT = "zodbrepl-events.service"
CONFIG = "/etc/zodbrepl/events.conf"
VAR = "/var/lib/zodbrepl/events"
USER = "indico"
BACKUP = "zodbrepl-events-backup.service"
TIMER = "zodbrepl-events-backup.timer"


@contextlib.contextmanager
def in_foreground(
    cluster: ClusterUnderTest, told: socket.socket
) -> Iterator[subprocess.Popen[str]]:
    """`zodbrepl run` with a service manager that listens at ``told``."""
    address = f"{cluster.folder}/notify"
    told.bind(address)
    told.settimeout(SECONDS)
    with subprocess.Popen(
        [cluster.home / "bin/zodbrepl", "-c", cluster.path, "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ZODBREPL_HOME": str(cluster.home), "NOTIFY_SOCKET": address},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def told() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        yield manager


def test_run_tells_the_service_manager_when_all_is_up_and_sigterm_stops_everything(
    cluster: ClusterUnderTest, told: socket.socket
) -> None:
    with in_foreground(cluster, told) as process:
        assert b"READY=1\nSTATUS=cluster test is up" == told.recv(1000)
        assert 0 == cluster.cli("status").returncode
        process.send_signal(signal.SIGTERM)
        assert b"STOPPING=1" == told.recv(1000)
        output, errors = process.communicate(timeout=SECONDS)
        assert (0, "") == (process.returncode, errors), output
        assert "node-b ended" in output
    assert cluster.processes() == []


def test_run_ends_well_when_the_cluster_is_stopped_by_hand(
    cluster: ClusterUnderTest, told: socket.socket
) -> None:
    with in_foreground(cluster, told) as process:
        told.recv(1000)
        cluster.down()
        assert 0 == process.wait(SECONDS)


def test_run_fails_when_supervisord_dies(cluster: ClusterUnderTest, told: socket.socket) -> None:
    with in_foreground(cluster, told) as process:
        told.recv(1000)
        os.kill(cluster.supervisord_pid(), signal.SIGKILL)
        _output, errors = process.communicate(timeout=SECONDS)
        assert 1 == process.returncode
        assert "NOTICE: supervisord died" in errors
        assert "HINT: bin/zodbrepl -c" in errors


def test_run_stays_and_says_so_when_a_node_cannot_be_started(
    cluster: ClusterUnderTest, told: socket.socket
) -> None:
    folder = Path(cluster.folder, "var/node/b")
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("damaged")
    with in_foreground(cluster, told) as process:
        assert told.recv(1000).startswith(b"READY=1\nSTATUS=partly up: ")
        assert cluster.supervisord_pid()
        process.send_signal(signal.SIGTERM)
        _output, errors = process.communicate(timeout=SECONDS)
        assert 0 == process.returncode
        assert "NOTICE: " in errors


def test_run_with_an_unusable_cluster_file_ends_with_a_code_that_systemd_does_not_retry(
    cluster: ClusterUnderTest, told: socket.socket
) -> None:
    cluster.path.write_text("name test\nnonsense\n")
    with in_foreground(cluster, told) as process:
        assert 2 == process.wait(SECONDS)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_only_root_can_install_a_service(cluster: ClusterUnderTest) -> None:
    done = subprocess.run(
        [
            *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"),
            *("--inh-caps=-all,+dac_read_search", "--bounding-set=-all,+dac_read_search"),
            *("--ambient-caps=-all,+dac_read_search", cluster.home / "bin/zodbrepl"),
            *("-c", cluster.path, "install-service", "--user", "nobody"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (8, "") == (done.returncode, done.stdout), done.stderr
    assert "NOTICE: install-service needs root" in done.stderr
    assert "install-service --print" in done.stderr


def cluster_file() -> tuple[str, int]:
    """A pair with Indico in folders as on a server; the port of Indico."""
    ports = iter(free_ports(6))
    nodes = "".join(
        f"<node {name}>\nhost 127.0.0.1\nstorage-port {next(ports)}\nreplication-port "
        f"{next(ports)}\ndata-directory /srv/zodb/{name}\nrole {role}\n</node>\n"
        for name, role in (("a", "primary"), ("b", "secondary\nupstream a"))
    )
    indico = next(ports)
    return (
        f"name events\nbackend zrs\nvar-directory {VAR}\nbackup-directory /srv/backup\n{nodes}"
        f"<indico one>\nport {indico}\n</indico>\n<admin>\nport {next(ports)}\n</admin>\n"
    ), indico


class Server:
    """A machine on which an administrator installs the cluster as a service."""

    def __init__(self, machine: Machine, home: Path, port: int) -> None:
        self.machine = machine
        self.home = home
        self.port = port
        self.config = CONFIG

    def zodbrepl(self, *arguments: str, user: str | None = USER) -> tuple[int, str]:
        """Run `zodbrepl`; exit code and output."""
        done = self.machine.run(
            [self.home / "bin/zodbrepl", "-c", self.config, *arguments], user=user, check=False
        )
        return done.returncode, done.stdout

    def state(self, unit: str = UNIT) -> str:
        """systemd's word for the state of a unit."""
        return self.machine.run(["systemctl", "is-active", unit], check=False).stdout.strip()

    def main_pid(self, unit: str = UNIT) -> str:
        done = self.machine.run(["systemctl", "show", "--value", "-p", "MainPID", unit])
        return done.stdout.strip()

    def has_begun_since(self, former: str) -> bool:
        """Whether another main process has begun."""
        return self.main_pid() not in {former, "0"}

    def supervisord_pid(self) -> str:
        return self.machine.run(["cat", f"{VAR}/run/supervisord.pid"]).stdout.strip()

    def page(self) -> str:
        """Indico's page, or nothing while there is none."""
        url = f"http://127.0.0.1:{self.port}/indico/"
        return self.machine.run(["curl", "-sf", "-m", "100", url], check=False).stdout

    def log(self) -> str:
        return self.machine.run(["journalctl", "-u", UNIT, "-n", "60", "-o", "cat"]).stdout

    def is_healthy(self) -> bool:
        return self.zodbrepl("status")[0] == 0

    def is_healthy_but_for_a_backup(self) -> bool:
        """Return True if the only alert is that there is no backup."""
        found = json.loads(self.zodbrepl("status", "--json")[1])
        return [each["text"] for each in found["warnings"]] == ["there is no good backup"]

    def processes(self) -> list[str]:
        """What the service's user runs."""
        return self.machine.run(["pgrep", "-l", "-u", USER], check=False).stdout.splitlines()

    def install_and_start(self) -> None:
        """Install the service, and start it as its last line says."""
        code, output = self.zodbrepl("install-service", "--user", USER, user=None)
        assert 0 == code, output
        command = output.splitlines()[-1].partition(": ")[2]
        assert f"systemctl enable --now {UNIT}" == command
        self.machine.run(command.split(), check=False)
        assert "active" == self.state(), self.log()

    def begin_indico(self) -> None:
        """Put an Indico with an administrator into the database."""
        admin = dict.fromkeys(("login", "password", "first_name", "last_name"), "ada")
        file = f"{VAR}/admin.json"
        self.machine.write(file, json.dumps(admin | {"email": "ada@example.org"}), "600")
        self.machine.run(["chown", f"{USER}:", file])
        self.machine.run(
            [
                *("env", f"INDICO_CONF={VAR}/etc/one/indico.conf", self.home / "bin/indico-python"),
                *("-m", "indico_zodbrepl.dataplane.indico.firstrun", "--admin-file", file),
            ],
            user=USER,
        )


@pytest.fixture
def server(tmp_path: Path, home: Path) -> Iterator[Server]:
    root = tmp_path / "root"
    root.mkdir()
    with booted(root) as machine:
        machine.run(["useradd", "--system", "--home-dir", "/srv/indico", USER])
        text, port = cluster_file()
        machine.write(CONFIG, text)
        # Both interpreters may be in root's home here; a server has them elsewhere.
        for program in ("bin/zodbrepl", ".venv/bin/python", "parts/python27/bin/python"):
            for folder in (home / program).resolve().parents:
                machine.run(["chmod", "a+x", folder])
        yield Server(machine, home, port)


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(lacking()), reason=f"lacks {lacking()}")
def test_a_node_gets_a_new_folder_while_the_service_runs(server: Server) -> None:
    server.install_and_start()
    server.begin_indico()
    server.zodbrepl("node", "stop", "b")
    server.machine.run(["mv", "/srv/zodb/b", "/srv/zodb/b.damaged"])
    server.machine.run(["install", "-d", "-m", "700", "-o", USER, "/srv/zodb/b"])
    code, output = server.zodbrepl("clone", "b", "--reason", "its disk is damaged")
    assert 0 == code, output
    wait_until(server.is_healthy, "the node with a new folder follows", SECONDS)


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(lacking()), reason=f"lacks {lacking()}")
@pytest.mark.parametrize(
    "example", ["neo", "relstorage-postgresql", "relstorage-mariadb", "relstorage-sqlite"]
)
def test_the_service_does_not_hinder_any_storage(server: Server, example: str) -> None:
    text = (server.home / f"etc/cluster-{example}.conf").read_text()
    text = re.sub(r"\$\(ZODBREPL_HOME\)/var/[a-z-]+-demo", VAR, text)
    server.machine.write(CONFIG, re.sub(r"(?m)^name .*", "name events", text))
    server.install_and_start()
    server.begin_indico()
    wait_until(server.is_healthy, "the cluster is healthy", SECONDS)
    server.machine.run(["systemctl", "stop", UNIT])
    assert "inactive" == server.state(), server.log()
    assert server.processes() == []


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(lacking()), reason=f"lacks {lacking()}")
def test_a_service_starts_serves_survives_and_stops_under_a_real_systemd(server: Server) -> None:
    machine = server.machine
    server.install_and_start()
    verified = machine.run(["systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}"])
    assert UNIT not in verified.stdout
    exposure = machine.run(["systemd-analyze", "security", "--no-pager", UNIT]).stdout
    level = re.search(r"exposure level for \S+ ([\d.]+)", exposure)
    assert level
    assert float(level.group(1)) < 3

    server.begin_indico()
    wait_until(lambda: "Indico" in server.page(), "Indico serves its page", SECONDS)
    wait_until(server.is_healthy, "the cluster is healthy", SECONDS)
    for path in (VAR, "/srv/zodb/a", "/srv/zodb/b", "/srv/backup"):
        found = machine.run(["stat", "-c", "%U %a", path]).stdout.split()
        assert [USER, "700"] == found, path
    assert "events" in machine.run(["ls", "/var/log/zodbrepl"]).stdout
    code, output = server.zodbrepl("backup", "--reason", "by hand")
    assert 0 == code, output

    code, output = server.zodbrepl("install-service", "--remove", user=None)
    assert 8 == code
    assert f"HINT: systemctl stop {UNIT}" in output

    for victim in (server.supervisord_pid, server.main_pid):
        before = server.main_pid()
        machine.run(["kill", "-KILL", victim()])
        wait_until(
            partial(server.has_begun_since, before),
            "systemd has started it again",
            SECONDS,
        )
        wait_until(lambda: server.state() == "active", "all programs have started", SECONDS)
        wait_until(server.is_healthy, "the cluster is healthy again", SECONDS)
    assert "Indico" in server.page()

    machine.run(["systemctl", "stop", UNIT])
    assert "inactive" == server.state(), server.log()
    assert server.processes() == []
    ended = re.findall(r"(indico-one|node-a|node-b) ended", server.log())
    assert ["indico-one", "node-a", "node-b"] == ended[-3:]

    machine.run(["systemctl", "start", "--no-block", UNIT])
    wait_until(lambda: "node-a is up" in server.log().split("Stopped")[-1], "a node runs", SECONDS)
    machine.run(["systemctl", "stop", UNIT])  # while it starts
    assert "inactive" == server.state(), server.log()
    assert server.processes() == []

    machine.run(["systemctl", "start", UNIT])
    assert "Indico" in server.page()
    code, output = server.zodbrepl("down", "--reason", "by hand")
    assert 0 == code, output
    wait_until(lambda: server.state() == "inactive", "the service has ended", SECONDS)

    code, output = server.zodbrepl("install-service", "--remove", user=None)
    assert 0 == code, output
    assert "could not be found" in machine.run(["systemctl", "status", UNIT], check=False).stdout
    machine.run(["test", "-f", "/srv/zodb/a/Data.fs"])


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(lacking()), reason=f"lacks {lacking()}")
def test_a_timer_makes_the_backups_until_the_schedule_is_gone(server: Server) -> None:
    machine = server.machine
    text, _ = cluster_file()
    machine.write(CONFIG, f"{text}backup-time 03:00\n")
    code, output = server.zodbrepl("install-service", "--user", USER, user=None)
    assert 0 == code, output
    assert output.endswith(f"systemctl enable --now {UNIT} {TIMER}\n")
    machine.run(["systemctl", "enable", "--now", UNIT, TIMER], check=False)
    assert ["active", "active"] == [server.state(), server.state(TIMER)], server.log()
    due = machine.run(
        ["systemctl", "show", "--timestamp=utc", "-P", "NextElapseUSecRealtime", TIMER]
    )
    assert " 03:00:00 UTC" in due.stdout
    server.begin_indico()
    wait_until(server.is_healthy_but_for_a_backup, "only a backup is missing", SECONDS)

    done = machine.run(["systemctl", "start", BACKUP], check=False)
    log = machine.run(["journalctl", "-u", BACKUP, "-o", "cat"]).stdout
    assert 0 == done.returncode, log
    assert "full backup " in log
    wait_until(server.is_healthy, "the backup is there", SECONDS)
    code, output = server.zodbrepl("journal")
    assert "schedule" in output

    machine.write(CONFIG, f"{text}backup-time 04:30\n")
    server.zodbrepl("install-service", "--user", USER, user=None)
    due = machine.run(
        ["systemctl", "show", "--timestamp=utc", "-P", "NextElapseUSecRealtime", TIMER]
    )
    assert " 04:30:00 UTC" in due.stdout, "a running timer learns of the new time"

    machine.write(CONFIG, text)
    code, output = server.zodbrepl("install-service", "--user", USER, user=None)
    assert 0 == code, output
    assert f"removed /etc/systemd/system/{TIMER}" in output
    assert output.endswith(f"systemctl enable --now {UNIT}\n")
    assert "inactive" == server.state(TIMER)
    assert "active" == server.state()


ADDRESS = "10.77.0.11"
AGENT = "zodbrepl-events-agent.service"
OWN_FOLDER = "/etc/zodbrepl-events"


def write_file_of_host(server: Server) -> None:
    """Write a cluster file with one host, which is this machine."""
    machine = server.machine
    machine.run(["ip", "link", "set", "lo", "up"])
    machine.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "lo"])
    text, _ = cluster_file()
    text = re.sub(r"host 127\.0\.0\.1", "host h1", text)
    text = re.sub(r"<(indico one|admin)>", r"<\1>\nhost h1", text)
    hosts = f"<host h1>\naddress {ADDRESS}\n</host>\n"
    config = f"{OWN_FOLDER}/events.conf"
    machine.write(config, text + hosts)
    server.config = config


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(lacking()), reason=f"lacks {lacking()}")
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="lacks haproxy")
def test_the_agent_of_a_host_is_a_service_of_its_own(server: Server) -> None:
    machine = server.machine
    write_file_of_host(server)
    code, output = server.zodbrepl("install-service", "--user", USER, user=None)
    assert 8 == code
    assert f"HINT: keep it in a folder of its own: chown {USER}" in output
    machine.run(["chown", "-R", f"{USER}:", OWN_FOLDER])
    code, output = server.zodbrepl("install-service", "--user", USER, user=None)
    assert 0 == code, output
    assert f"systemctl enable --now {AGENT} {UNIT}" in output
    code, output = server.zodbrepl("hosts", "init")
    assert 0 == code, output

    machine.run(["systemctl", "enable", "--now", AGENT, UNIT], check=False)
    assert "active" == server.state(), server.log()
    assert "active" == server.state(AGENT), server.log()
    code, output = server.zodbrepl("hosts", "list")
    assert 0 == code, output
    verified = machine.run(["systemd-analyze", "verify", f"/etc/systemd/system/{AGENT}"])
    assert AGENT not in verified.stdout

    before = server.main_pid(AGENT)
    machine.run(["kill", "-KILL", before])
    wait_until(lambda: server.main_pid(AGENT) not in {before, "0"}, "it has begun again", SECONDS)
    wait_until(lambda: server.zodbrepl("hosts", "list")[0] == 0, "it answers", SECONDS)
    assert "active" == server.state(), "the programs run on"

    agent, programs = server.main_pid(AGENT), server.main_pid()
    machine.run(["kill", "-KILL", server.supervisord_pid()])
    wait_until(lambda: server.has_begun_since(programs), "systemd has started it again", SECONDS)
    wait_until(lambda: server.state() == "active", "all programs have started", SECONDS)
    assert agent == server.main_pid(AGENT), "the agent survives supervisord"

    machine.run(["systemctl", "restart", AGENT])
    assert "active" == server.state()
    code, output = server.zodbrepl("down", "--reason", "by hand")
    assert 0 == code, output
    wait_until(lambda: server.state() == "inactive", "the service has ended", SECONDS)
    assert "active" == server.state(AGENT)

    machine.run(["systemctl", "start", UNIT])
    machine.run(["systemctl", "stop", UNIT])
    assert "inactive" == server.state(), server.log()
    assert "active" == server.state(AGENT)
    code, output = server.zodbrepl("install-service", "--remove", user=None)
    assert 8 == code
    assert f"HINT: systemctl stop {AGENT}" in output
    machine.run(["systemctl", "stop", AGENT])
    assert server.processes() == []
    code, output = server.zodbrepl("install-service", "--remove", user=None)
    assert 0 == code, output
