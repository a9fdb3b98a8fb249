"""An Indico on two of three hosts, behind the load balancer of the example, as users see it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import requests
from patience import wait_until
from three import HOME, Three, later

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.host import tunnel_control

sys.path.insert(0, str(HOME / "tests/integration"))

from indico_browser import IndicoBrowser

INSTANCES = {"one": "h1", "two": "h2"}
BALANCER = "h3"
HTTPS = 8443
TAKEOVER = 12
"""Seconds after which another host runs the timed tasks."""
ADMIN = {
    "login": "admin",
    "password": "secret",
    "email": "admin@example.org",
    "first_name": "Ada",
    "last_name": "Admin",
}
SERVED = re.compile(r" (?:writable|readable)/(\w+) ")
"""The instance in a line of HAProxy's log."""


def environment(three: Three, instance: str) -> dict[str, str]:
    """Return the variables with which programs on any host find an Indico."""
    conf = three.lab.srv / f"var/etc/{instance}/indico.conf"
    return Installation(HOME).environment27(INDICO_CONF=str(conf), ZODBREPL_HOME=str(HOME))


def python27(three: Three, host: str, instance: str, *arguments: str | Path) -> str:
    """Run Python 2.7 on a host with the configuration of an instance; return what it prints."""
    command = (Installation(HOME).python27, *arguments)
    return three.lab[host].run(*command, environ=environment(three, instance)).stdout


def begin_indico(three: Three, host: str, instance: str) -> None:
    """Put an Indico with the administrator ADMIN into the database."""
    admin = three.lab[host].folder / "admin.json"
    admin.touch(0o600)
    admin.write_text(json.dumps(ADMIN))
    program = "indico_zodbrepl.dataplane.indico.firstrun"
    python27(three, host, instance, "-m", program, "--admin-file", three.lab.srv / "admin.json")


class Balanced:
    """Three hosts with their nodes, and Indico on two of them.

    Attributes:
        three: the cluster.
        url: of Indico behind the balancer, from this machine.

    Args:
        instances: their hosts.
        make: returns the cluster with these lines in its file.
    """

    def __init__(
        self,
        lab: Lab,
        instances: Mapping[str, str] = INSTANCES,
        make: Callable[[str], Three] | None = None,
    ) -> None:
        self._port = lab[BALANCER].forward(HTTPS)
        self.url = f"https://localhost:{self._port}/indico"
        more = [f"public-url {self.url}", f"scheduler-takeover {TAKEOVER}"]
        for name, host in instances.items():
            more += [f"<indico {name}>", f"host {host}", "port 8101", "</indico>"]
        section = "\n".join(more)
        self.three = Three(lab, "tls", section=section) if make is None else make(section)
        self.installation = Installation(HOME)
        self._folder = lab[BALANCER].folder
        self.certificate = self._folder / "user.crt"
        self._balancer: Program | None = None

    def start(self) -> None:
        """Start everything, and put an Indico with an administrator into the database."""
        self.three.agents()
        self.three.zodbrepl("h1", "up")
        begin_indico(self.three, "h1", "one")
        self.start_balancer()

    def python27(self, host: str, *arguments: str | Path) -> str:
        """Run Python 2.7 on a host with the configuration of the first instance."""
        return python27(self.three, host, "one", *arguments)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which programs on any host find Indico."""
        return environment(self.three, "one")

    # The balancer

    def start_balancer(self) -> None:
        """Start the example of the documentation, with the names and files of this lab."""
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
                *("-keyout", self._folder / "user.key", "-out", self.certificate),
            ],
            check=True,
            capture_output=True,
        )
        pem = self._folder / "user.pem"
        pem.write_text(self.certificate.read_text() + (self._folder / "user.key").read_text())
        text = (HOME / "etc/haproxy/indico.cfg").read_text()
        for old, new in {
            "log /dev/log local0": "log stdout format raw local0",
            "bind :80\n": "bind :8080\n",
            "bind :443 ssl": f"bind :{HTTPS} ssl",
            "/etc/haproxy/events.example.org.pem": str(self.three.lab.srv / "user.pem"),
            "events.example.org": "localhost",
        }.items():
            assert old in text, old
            text = text.replace(old, new)
        (self._folder / "balancer.cfg").write_text(text)
        with self._log.open("wb") as log:
            self._balancer = self.three.lab[BALANCER].popen(
                str(tunnel_control.find()),
                *("-db", "-f", str(self.three.lab.srv / "balancer.cfg")),
                stdout=log.fileno(),
                stderr=subprocess.STDOUT,
            )
        assert wait_until(self._answers, later()), self._log.read_text()

    def _answers(self) -> bool:
        try:
            self.browser().get("/")
        except requests.ConnectionError:
            return False
        return True

    @property
    def _log(self) -> Path:
        return self._folder / "balancer.log"

    def served(self) -> list[str]:
        """Return the instances that answered, one for each request so far."""
        text = self._log.read_text(errors="replace")
        return [found[1] for found in map(SERVED.search, text.splitlines()) if found]

    # Its users

    def browser(self) -> IndicoBrowser:
        """Return somebody who is not logged in."""
        made = IndicoBrowser(self.url)
        made.session.trust_env = False  # it may name other authorities
        made.session.verify = str(self.certificate)
        return made

    def logged_in(self) -> IndicoBrowser:
        """Return an administrator; wait until the site takes a login."""
        made = self.browser()

        def succeeds() -> bool:
            try:
                made.log_in(ADMIN["login"], ADMIN["password"])
            except AssertionError:
                return False
            return True

        assert wait_until(succeeds, later()), self._log.read_text()[-3000:]
        return made
