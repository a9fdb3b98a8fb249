"""nginx in front of Indico's workers, which speaks TLS with visitors."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from indico_zodbrepl.bench.sites.site import free_ports
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import authority, py27
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.probing.waiting import wait_until

COMMAND = "nginx"
FOLDERS = "/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin"
PACKAGE = "nginx-light"
HOST = "127.0.0.1"
START_SECONDS = 20.0
END_SECONDS = 10.0
POLL_SECONDS = 0.05

_PROGRAM = """\
daemon off;
user {user};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{content}
}}
"""
_FRONT = """\
    upstream indico {{
        {servers}
    }}
    server {{
        listen {host}:{port} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {certificate};
        ssl_protocols TLSv1.2 TLSv1.3;
        location / {{
            proxy_pass http://indico;
            proxy_set_header Host {first};
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
        }}
    }}
"""


def find() -> str | None:
    """Return the path of nginx; None if it is not installed."""
    return shutil.which(COMMAND, path=FOLDERS)


@contextlib.contextmanager
def front(folder: Path, instances: Sequence[IndicoInstance]) -> Iterator[str]:
    """Context: a running nginx, which gives requests to instances in turn; yield its base URL.

    Its certificate is of an authority that nobody trusts.

    Args:
        folder: an empty one.

    Raises:
        OperatorError: exit 4, nginx is not installed; exit 7, it does not start.
    """
    program = installed()
    authority.create(folder, "bench")
    certificate = folder / "front.pem"
    certificate.touch(0o600)
    certificate.write_text(authority.issue(folder, "front", Role.HOST, HOST).pem)
    (port,) = free_ports(1)
    content = _FRONT.format(
        servers="\n        ".join(f"server {each.address};" for each in instances),
        host=HOST,
        port=port,
        certificate=certificate,
        first=instances[0].address,
    )
    with running(program, folder, content):
        yield f"https://{HOST}:{port}{instances[0].path}"


def installed() -> str:
    """Return the path of nginx; raise OperatorError (exit 4) if it is not installed."""
    program = find()
    if program is None:
        raise OperatorError(
            "nginx is not installed",
            f"no {COMMAND} in {FOLDERS}",
            f"as root: apt-get install {PACKAGE}",
            ExitCode.NOT_INSTALLED,
        )
    return program


@contextlib.contextmanager
def running(program: str, folder: Path, content: str) -> Iterator[None]:
    """Context: nginx, stopped on exit.

    Args:
        program: its path.
        folder: for its configuration, log and temporary files.
        content: of the section ``http`` of its configuration.

    Raises:
        OperatorError: exit 7, it does not start.
    """
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _PROGRAM.format(folder=folder, user=getpass.getuser(), content=content)
    )
    with (folder / "error.log").open("ab") as errors:
        process = subprocess.Popen([program, "-p", folder, "-c", configuration], stderr=errors)
    try:
        _wait_until_started(process, folder)
        yield
    finally:
        py27.end(process, END_SECONDS)


def _wait_until_started(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until nginx has written its PID, which it does when it listens."""
    started = wait_until(
        lambda: (folder / "nginx.pid").exists() or process.poll() is not None,
        time.monotonic() + START_SECONDS,
        POLL_SECONDS,
    )
    if not started or process.poll() is not None:
        raise OperatorError(
            "nginx does not start",
            (folder / "error.log").read_text("utf-8", "replace")[-1000:],
            exit_code=ExitCode.TIMED_OUT,
        )
