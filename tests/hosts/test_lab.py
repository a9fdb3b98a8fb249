"""A lab of several hosts: what each host has of its own, its power, and what is left of a lab."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from labs import MakeLab
from patience import wait_until
from talk import PATIENCE, PORT, SILENCE, answering, ask
from traces import traces_of

import indico_zodbrepl
from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.waiting import wait_while

HOME = Path(indico_zodbrepl.__file__).resolve().parents[2]
IN_BACKGROUND = ("sh", "-c", "setsid sleep 1000 & setsid sh -c 'sleep 1001 & sleep 1002' & exit 0")
# A lab in a process of its own, which waits.
HOLD = """\
import sys
from pathlib import Path
from indico_zodbrepl.demo.lab import Lab
with Lab(Path(sys.argv[1]), 2) as lab:
    lab["h1"].popen("sleep", "1000")
    lab["h2"].popen("sleep", "1000")
    lab["h2"].freeze()
    print("up", flush=True)
    sys.stdin.read()
    raise ValueError("enough")
"""
AS_NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
# What an ordinary user's lab is asked for.
AS_ORDINARY_USER = """\
import os, subprocess, sys
from pathlib import Path
from indico_zodbrepl.demo.lab import Lab
sys.path.insert(0, sys.argv[2])
from talk import answering, ask, round_trip
with Lab(Path(sys.argv[1]), 2) as lab:
    one, other = lab
    assert one.run("id", "-u").stdout.strip() == str(os.getuid())
    assert one.run("ip", "link", "set", "eth0", "down", check=False).returncode
    assert subprocess.check_output([*one.enter(), "hostname"]) == b"h1\\n"
    one.run("touch", lab.srv / "file")
    with answering(other):
        ask(one, other)
        lab.network.isolate("h2")
        ask(one, other, "silence")
        lab.network.heal()
        ask(one, other)
        lab.network.slow("h2", delay_ms=20)
        assert round_trip(one, other) >= 0.04
    one.restart()
    assert one.run("ls", lab.srv).stdout == "file\\n"
print("works")
"""


def test_each_host_has_its_own_name_address_data_and_temporary_folders(lab: Lab) -> None:
    for host in lab:
        host.run("sh", "-c", 'hostname > "$1/name"; hostname > /tmp/name', "sh", lab.srv)
    for host in lab:
        assert f"{host.name}\n" == (host.folder / "name").read_text(), "seen from outside"
        seen = host.run("sh", "-c", 'cat "$1/name" /tmp/name; ls "$1/.."', "sh", lab.srv).stdout
        assert [host.name, host.name, "srv"] == seen.split(), "nothing of the others"
        assert f" {host.address}/24 " in host.run("ip", "address", "show", "eth0").stdout


def test_a_host_sees_its_own_processes_alone(lab: Lab) -> None:
    program = lab["h1"].popen("sleep", "1000")
    seen = {host.name: host.run("ls", "/proc").stdout.split() for host in lab}
    assert str(program.pid) in seen["h1"]
    assert max(len([each for each in found if each.isdigit()]) for found in seen.values()) < 20
    program.kill()
    assert -signal.SIGKILL == program.wait(PATIENCE)


def test_a_person_may_enter_a_host(lab: Lab) -> None:
    done = subprocess.run(
        [*lab["h2"].enter(), "hostname"], capture_output=True, text=True, check=False
    )
    assert ("h2\n", "") == (done.stdout, done.stderr)


def test_hosts_know_each_other_by_name_and_reach_each_other(lab: Lab) -> None:
    with answering(lab["h2"]):
        ask(lab["h1"], lab["h2"])
        ask(lab["h3"], lab["h2"])
        ask(lab["h2"], lab["h2"])
        ask(lab["h2"], lab["h1"], "refused")


def test_a_host_runs_the_programs_of_the_installation(lab: Lab) -> None:
    done = lab["h1"].run(HOME / "bin/zodbrepl", "--version")
    assert indico_zodbrepl.__version__ in done.stdout
    done = lab["h1"].run(HOME / "parts/python27/bin/python", "-c", "import ZODB; print(42)")
    assert "42\n" == done.stdout


def test_a_program_gets_its_input_environment_and_folder_and_returns_its_outputs(lab: Lab) -> None:
    done = lab["h1"].run(
        *("sh", "-c", 'cat; echo "$WORD"; pwd; echo wrong >&2; exit 3'),
        text="given\n",
        environ={"WORD": "word"},
        folder=lab.srv,
        check=False,
    )
    assert (3, f"given\nword\n{lab.srv}\n", "wrong\n") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )
    with pytest.raises(subprocess.CalledProcessError) as failed:
        lab["h1"].run("sh", "-c", "echo because; exit 1")
    assert ["on host h1: because\n"] == failed.value.__notes__
    with pytest.raises(FileNotFoundError, match="/no-such-program"):
        lab["h1"].run("/no-such-program")


def test_what_a_program_leaves_running_does_not_delay_its_return(lab: Lab) -> None:
    lab["h1"].run(*IN_BACKGROUND)
    assert wait_until(lambda: running(lab, "sleep 1002"), time.monotonic() + PATIENCE)


def test_a_program_that_takes_too_long_is_killed_with_what_it_started(lab: Lab) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        lab["h1"].run("sh", "-c", "sleep 2001; true", timeout=SILENCE)
    assert not wait_while(lambda: running(lab, "sleep 2001"), time.monotonic() + PATIENCE)


def running(lab: Lab, command: str) -> list[str]:
    return [trace for trace in traces_of(lab.folder) if command in trace]


def test_a_killed_host_loses_all_processes_and_the_others_none(hosts: MakeLab) -> None:
    lab = hosts(2)
    one, other = lab
    one.run(*IN_BACKGROUND)
    kept, lost = other.popen("sleep", "1000"), one.popen("sleep", "1000")
    assert len(traces_of(lab.folder, "h1")) > 4
    with answering(one):
        ask(other, one)
        one.kill()
        assert [] == traces_of(lab.folder, "h1")
        assert traces_of(lab.folder, "h2")
    assert (False, -signal.SIGKILL, None) == (one.is_on, lost.poll(), kept.poll())
    ask(other, one, "silence")
    with pytest.raises(OperatorError, match="host h1 is off") as refused:
        one.run("true")
    assert ExitCode.NOT_RUNNING == refused.value.exit_code
    one.kill()


def test_a_restarted_host_has_its_data_and_nothing_else(hosts: MakeLab) -> None:
    lab = hosts(2)
    one, other = lab
    one.run("sh", "-c", 'echo kept > "$1/file"; touch /tmp/file /run/file', "sh", lab.srv)
    one.popen("sleep", "1000")
    with answering(one):
        ask(other, one)
        one.restart()
    assert "kept\n" == one.run("cat", lab.srv / "file").stdout
    assert "" == one.run("ls", "/tmp/file", "/run/file", check=False).stdout  # noqa: S108
    assert [] == running(lab, "sleep 1000")
    with answering(one):
        ask(other, one)


def test_a_frozen_host_answers_when_it_is_thawed(lab: Lab) -> None:
    one, other, _ = lab
    with answering(other) as program:
        other.freeze()
        assert {"T"} == set(other.namespaces.states().values())
        ask(one, other, "silence")
        assert program.poll() is None
        other.thaw()
        ask(one, other)
        program.terminate()
        assert -signal.SIGTERM == program.wait(PATIENCE)


def test_a_frozen_host_can_be_killed(hosts: MakeLab) -> None:
    lab = hosts(1)
    lab["h1"].popen("sleep", "1000")
    lab["h1"].freeze()
    lab["h1"].restart()
    assert [] == running(lab, "sleep")


def test_a_port_outside_leads_to_an_address_in_a_host(hosts: MakeLab) -> None:
    lab = hosts(2)
    one, _ = lab
    port = one.forward(PORT)
    beside = one.forward(PORT, "127.77.0.11")
    assert "reset" == asked_from_outside(port), "nothing listens in the host"
    with answering(one):
        lab.network.isolate("h1")
        assert ["question"] * 2 == [asked_from_outside(port), asked_from_outside(beside)]
        one.freeze()
        assert "silence" == asked_from_outside(port, SILENCE)
        one.thaw()
        one.kill()
        assert "refused" == asked_from_outside(port)
    one.start()
    with answering(one):
        assert "question" == asked_from_outside(port)


def asked_from_outside(port: int, seconds: float = PATIENCE) -> str:
    try:
        with socket.create_connection(("127.0.0.1", port), seconds) as peer:
            peer.sendall(b"question")
            return peer.recv(100).decode() or "reset"
    except ConnectionRefusedError:
        return "refused"
    except ConnectionResetError:
        return "reset"
    except TimeoutError:
        return "silence"


def test_labs_don_t_meet_and_there_is_one_in_a_folder(hosts: MakeLab) -> None:
    first, second = hosts(2), hosts(2)
    with answering(first["h2"]):
        ask(first["h1"], first["h2"])
        ask(second["h1"], second["h2"], "refused")
        first.network.isolate("h1")
        with answering(second["h2"]):
            ask(second["h1"], second["h2"])
    with pytest.raises(OperatorError, match="another lab is in this folder") as refused:
        Lab(first.folder, 1)
    assert ExitCode.REFUSED == refused.value.exit_code
    first.close()
    with Lab(first.folder, 1) as again:
        again["h1"].run("true")


@contextlib.contextmanager
def held(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has a lab."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        try:
            assert "up\n" == process.stdout.readline()
            assert len(traces_of(folder)) > 6
            yield process
        finally:
            process.kill()


def test_a_killed_process_leaves_nothing_of_its_lab(hosts: MakeLab, tmp_path: Path) -> None:
    del hosts
    with held(tmp_path) as process:
        process.kill()
        process.wait(PATIENCE)
        left = wait_while(lambda: traces_of(tmp_path), time.monotonic() + PATIENCE)
    assert [] == left


def test_an_exception_leaves_nothing_of_a_lab(hosts: MakeLab, tmp_path: Path) -> None:
    del hosts
    with held(tmp_path) as process:
        _, errors = process.communicate(timeout=PATIENCE)
        assert "ValueError: enough" == errors.splitlines()[-1]
        assert [] == traces_of(tmp_path)


def test_a_first_process_that_fails_says_why(hosts: MakeLab, tmp_path: Path) -> None:
    del hosts
    (tmp_path / "h1").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match="File exists"):
        Lab(tmp_path, 1)
    (tmp_path / "h1").unlink()
    (tmp_path / "h1").write_text("no folder")
    with pytest.raises((OSError, OperatorError)):
        Lab(tmp_path, 1)
    (tmp_path / "h1").unlink()
    with Lab(tmp_path, 1) as lab:
        lab["h1"].run("true")


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_an_ordinary_user_has_labs_too(hosts: MakeLab) -> None:
    del hosts
    interpreter, path = python_for_all()
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 65534, 65534)
        done = subprocess.run(
            [
                *AS_NOBODY,
                *(interpreter, "-c", AS_ORDINARY_USER, folder, Path(__file__).parent / "harness"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=5 * PATIENCE,
            cwd="/",
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert "works\n" == done.stdout, done.stderr


def python_for_all() -> tuple[str, str]:
    """Return a Python that an ordinary user may run, and where it finds the packages."""
    path = os.pathsep.join(
        [str(HOME / "src"), *(each for each in sys.path if each.endswith("site-packages"))]
    )
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for found in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin")):
        # setpriv itself may still execute what root alone may; env may not.
        done = subprocess.run(
            [*AS_NOBODY, "env", str(found), "-c", "import indico_zodbrepl.demo, tenacity"],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            check=False,
            cwd="/",
        )
        if done.returncode == 0:
            return str(found), path
    pytest.skip(f"an ordinary user may run no {version} here")


def test_a_kernel_that_forbids_it_is_reported(hosts: MakeLab, tmp_path: Path) -> None:
    del hosts
    program = (
        "import sys; from pathlib import Path; from indico_zodbrepl.demo.lab import Lab\n"
        "from indico_zodbrepl.errors import OperatorError\n"
        "Path('/proc/sys/user/max_net_namespaces').write_text('0')\n"
        "try: Lab(Path(sys.argv[1]), 1)\n"
        "except OperatorError as error: print(int(error.exit_code), error)"
    )
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", program, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if "unshare failed" in done.stderr and not done.stdout:
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    first, detail, _ = done.stdout.splitlines()
    assert "11 NOTICE: this kernel does not allow several hosts on one machine" == first
    assert "DETAIL: unshare: unshare failed: No space left on device" == detail
    assert [] == list(tmp_path.iterdir())
