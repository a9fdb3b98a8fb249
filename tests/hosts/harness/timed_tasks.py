"""Indico's timed tasks on the hosts of a lab: a task requests a page, and the pages are counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from balanced import INSTANCES, Balanced
from patience import wait_until
from talk import python
from three import HOME, later

PORT = 9100
# Each host has one, so that a task can run whatever is cut off.
SERVER = """\
import http.server
class Requested(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open('FILE', 'a') as file:
            print(self.path, file=file)
        self.send_response(200)
        self.end_headers()
http.server.ThreadingHTTPServer(('127.0.0.1', 9100), Requested).serve_forever()
"""
ENQUEUE = """
import json, sys
import MaKaC.common
from datetime import timedelta
from indico.core.db import DBMgr
from indico.modules.scheduler import Client
from indico.modules.scheduler.tasks import HTTPTask
from indico.util.date_time import nowutc
with DBMgr.getInstance().global_connection(commit=True):
    for path in json.loads(sys.argv[2]):
        task = HTTPTask(str('http://127.0.0.1:9100' + path))
        task.setStartOn(nowutc() + timedelta(seconds=float(sys.argv[1])))
        Client().enqueue(task)
"""
STATUS = """
import json
import MaKaC.common
from indico.core.db import DBMgr
from indico.modules.scheduler import Client
with DBMgr.getInstance().global_connection():
    print(json.dumps(Client().getStatus()))
"""


class TimedTasks:
    """The tasks of a site; their pages are served by each host with an instance."""

    def __init__(self, site: Balanced) -> None:
        self.site = site
        for host in INSTANCES.values():
            self.serve(host)

    def serve(self, host: str) -> None:
        """Start the server of pages on a host, after each of its starts."""
        text = SERVER.replace("FILE", str(self.site.three.lab.srv / "requested"))
        self.site.three.lab[host].popen(*python(text))

    def enqueue(self, host: str, paths: Sequence[str], seconds: float = 0) -> None:
        """Enqueue tasks on a host, which are due in so many seconds."""
        self.site.python27(host, "-c", ENQUEUE, str(seconds), json.dumps(paths))

    def status(self, host: str) -> dict[str, Any]:
        """Return the scheduler's status by the database, as a host sees it."""
        found: dict[str, Any] = json.loads(self.site.python27(host, "-c", STATUS).splitlines()[-1])
        return found

    def move_to(self, host: str) -> None:
        """Have the scheduler of a host run the tasks, by a pause of the others."""
        for name, other in INSTANCES.items():
            if other != host:
                self._supervise(other, "stop", name)
        assert wait_until(lambda: self.status(host)["hostname"] == host, later())
        for name, other in INSTANCES.items():
            if other != host:
                self._supervise(other, "start", name)

    def _supervise(self, host: str, verb: str, instance: str) -> None:
        conf = self.site.three.lab.srv / "var/etc/supervisord.conf"
        command = (HOME / "bin/supervisorctl", "-c", conf, verb, f"scheduler-{instance}")
        self.site.three.lab[host].run(*command)

    def executed(self) -> list[str]:
        """Return the paths that were requested, on all hosts."""
        found: list[str] = []
        for host in INSTANCES.values():
            path = self.site.three.lab[host].folder / "requested"
            found += path.read_text().split() if path.exists() else []
        return found

    def wait_for(self, paths: Sequence[str]) -> None:
        """Wait until each of the tasks was executed; each has to be executed once."""
        assert wait_until(lambda: set(paths) <= set(self.executed()), later()), self.executed()
        assert sorted(paths) == sorted(each for each in self.executed() if each in paths)
