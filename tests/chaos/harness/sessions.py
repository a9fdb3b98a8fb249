"""The clients of a run: on each host one with a cache in memory, and one with a cache in a file."""

from __future__ import annotations

import random
from pathlib import Path

from counted import PYTHON27
from logs import History, read_log
from three import Three, later

from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.probing.waiting import wait_until

PROGRAMS = Path(__file__).parents[1] / "python27"
SPAN = 1_000_000
"""Numbers of a client between two starts."""
PAUSE_SECONDS = 0.3
GENERATION_SECONDS = 5.0
"""SPAN of python27/objects.py."""
CACHES = {
    "<clientstorage>\n": "    cache-path {folder}/zeo\n",
    "<relstorage>\n": "    cache-local-dir {folder}\n",
}
"""What puts the cache into a file, by the section; NEO has no such cache."""


class Clients:
    """Starts clients, and those again that died with their host.

    Args:
        folder: of this machine, which the hosts see at the same path.
        seconds: how long they may work.
        began: when the run began, by CLOCK_BOOTTIME.
    """

    def __init__(self, three: Three, folder: Path, seconds: float, began: float, seed: int):
        self._three = three
        self._folder = folder
        self._generations = int(seconds / GENERATION_SECONDS) + 1
        self._began = began
        self._chance = random.Random(seed)  # noqa: S311  # repeatable on purpose
        self._programs: dict[str, Program] = {}
        self._starts = 0

    @property
    def places(self) -> list[str]:
        return [f"{host.name}-{kind}" for host in self._three.lab for kind in ("memory", "file")]

    def prepare(self) -> None:
        """Make the objects."""
        self._run("h2", "make", self._conf, str(self._generations), *self.places)

    def _run(self, host: str, *arguments: str | Path) -> str:
        done = self._three.lab[host].run(
            *(PYTHON27, PROGRAMS / "prepare.py", *arguments),
            environ=self._environ,
            timeout=120,
        )
        return done.stdout

    @property
    def _environ(self) -> dict[str, str]:
        return {"ZODBREPL_LEADER": str(self._three.lab.srv / "var/leader.json")}

    @property
    def _conf(self) -> Path:
        return self._three.lab.srv / "var/etc/zodb.conf"

    def see(self, host: str) -> None:
        """Start the clients of a host that do not run."""
        for place in self.places:
            program = self._programs.get(place)
            if place.startswith(f"{host}-") and (program is None or program.poll() is not None):
                self._start(host, place)

    def _start(self, host: str, place: str) -> None:
        self._starts += 1
        conf = self._conf
        if place.endswith("-file"):
            conf = self._with_cache(host, place)
        session = f"{place}/{self._starts}"
        log = self._folder / f"{place}.log"
        with (self._folder / f"{place}.errors").open("ab") as errors:
            self._programs[place] = self._three.lab[host].popen(
                *(PYTHON27, PROGRAMS / "client.py", conf, log, session),
                *(str(self._starts * SPAN), repr(self._began)),
                *(str(self._chance.getrandbits(32)), str(PAUSE_SECONDS)),
                stdout=errors,
                stderr=errors,
                environ=self._environ,
            )

    def _with_cache(self, host: str, place: str) -> Path:
        """Write a configuration with a cache in a file, which outlives the client."""
        folder = self._folder / place
        folder.mkdir(exist_ok=True)
        text = (self._three.lab[host].folder / "var/etc/zodb.conf").read_text()
        conf = self._folder / f"{place}.conf"
        for section, line in CACHES.items():
            text = text.replace(section, section + line.format(folder=folder))
        conf.write_text(text)
        return conf

    def stop(self) -> None:
        """Kill them; what they were doing has an unknown outcome."""
        for program in self._programs.values():
            program.kill()
            program.wait()
        self._programs.clear()

    def history(self) -> History:
        """Return what all of them did."""
        found = History((), (), 0)
        for place in self.places:
            path = self._folder / f"{place}.log"
            with path.open(encoding="utf-8") as lines:
                found += read_log(lines)
        return found

    def idle(self) -> list[str]:
        """Return the clients of which no transaction was acknowledged."""
        return [place for place in self.places if not self._acknowledged(place)]

    def _acknowledged(self, place: str) -> int:
        path = self._folder / f"{place}.log"
        return path.read_text().count('"acknowledged"') if path.exists() else 0

    def shown(self, node: str = "") -> str:
        """Return all objects as JSON: as a node has them, or as clients do."""
        name = f"zodb-{node}.conf" if node else "zodb.conf"
        return self._run("h3", "show", self._three.lab.srv / "var/etc" / name)

    def see_more(self, count: int = 20) -> None:
        """Wait until so many more transactions were acknowledged."""

        def acknowledged() -> int:
            return sum(map(self._acknowledged, self.places))

        goal = acknowledged() + count
        assert wait_until(lambda: acknowledged() >= goal, later(), 0.5)
