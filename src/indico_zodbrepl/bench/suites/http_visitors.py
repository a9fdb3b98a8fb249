"""Who visits in the suite "http", what they request, and through what."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.suite import Option, Settings
from indico_zodbrepl.bench.suites import http_front, http_trials, indico_session
from indico_zodbrepl.bench.suites.http_trials import Holdings
from indico_zodbrepl.bench.suites.indico_session import Session
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.host import secrets

VISIT_FILE = "http-visit.json"
PAGES, STATIC = "pages", "static"
STATIC_PATH = "/images/indico_small.png"
SESSIONS = 20
"""More than few workers answer at once: two requests of a session may wait for each other."""
YES_NO = ("yes", "no")

OPTIONS = (
    Option("content", "what is requested", PAGES, choices=(PAGES, STATIC)),
    Option("tls", "yes: through nginx, which speaks TLS", "no", choices=YES_NO),
    Option("logged-in", "yes: visitors are logged in", "no", choices=YES_NO),
    Option(
        "writes",
        "percent of the requests that change a conference; its visitors are logged in",
        0,
        least=0,
        most=100,
    ),
)


@dataclasses.dataclass(frozen=True)
class Visit:
    """The pages that visitors request, and their sessions, the same in each trial of a site.

    Attributes:
        sessions: none if nobody is logged in.
        conferences: ids of those that may be changed.
    """

    paths: Sequence[str]
    sessions: Sequence[Session]
    conferences: Sequence[str]

    @classmethod
    def of(cls, site: Site) -> Visit:
        """Return what ``keep`` has kept."""
        kept = json.loads((site.folder / VISIT_FILE).read_text())
        return cls(
            kept["paths"], [Session(**each) for each in kept["sessions"]], kept["conferences"]
        )


def keep(site: Site, settings: Settings, held: Holdings) -> None:
    """Prepare the visits of a site, and keep them in its folder.

    Raises:
        OperatorError: exit 1, Indico refuses a login.
    """
    is_static = settings.options["content"] == STATIC
    visit = Visit(
        [STATIC_PATH] if is_static else http_trials.paths(held),
        _sessions(site) if _are_logged_in(settings) else (),
        held.conferences,
    )
    (site.folder / VISIT_FILE).write_text(json.dumps(dataclasses.asdict(visit)))


def parameters(settings: Settings) -> dict[str, str | int]:
    """Return the parameters of a case in which it differs from anonymous visitors of pages."""
    found: dict[str, str | int] = {}
    if settings.options["tls"] == "yes":
        found["tls"] = "yes"
    if settings.options["content"] == STATIC:
        found["content"] = STATIC
    if settings.options["writes"]:
        found["writes"] = settings.options["writes"]
    elif _are_logged_in(settings):
        found["visitors"] = "logged in"
    return found


@contextlib.contextmanager
def bases(
    site: Site, instances: Sequence[IndicoInstance], settings: Settings
) -> Iterator[Sequence[str]]:
    """Context: yield the URLs to which requests are sent in turn.

    Raises:
        OperatorError: as ``http_front.front``.
    """
    if settings.options["tls"] != "yes":
        yield [each.base_url for each in instances]
        return
    with (
        tempfile.TemporaryDirectory(dir=site.folder) as folder,
        http_front.front(Path(folder), instances) as base,
    ):
        yield [base]


def _are_logged_in(settings: Settings) -> bool:
    return bool(settings.options["logged-in"] == "yes" or settings.options["writes"])


def _sessions(site: Site) -> Sequence[Session]:
    cluster = site.require_cluster()
    user = secrets.read(secrets.path_in(Layout(cluster).var))
    return [indico_session.begin(cluster.indico[0].base_url, user) for _ in range(SESSIONS)]
