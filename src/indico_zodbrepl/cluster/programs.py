"""The programs around the storage: Indico, the admin page, the monitor, and their mail.  Pure."""

from __future__ import annotations

import dataclasses
import enum
import urllib.parse
from pathlib import Path

from indico_zodbrepl.cluster.places import Address

SCHEDULER = "scheduler"
"""The name of the program of Indico's scheduler in a cluster on one host, which has one."""


@dataclasses.dataclass(frozen=True)
class IndicoInstance:
    """A gunicorn with Indico, at ``http://host:port/indico``.

    Attributes:
        workers: number of its processes that answer requests.
        scheduler: True if Indico's scheduler runs beside it.
        path: of Indico's URL; begins with / and has none at its end.
        on: as of a node.
    """

    name: str
    host: str
    port: int
    scheduler: bool = False
    path: str = "/indico"
    workers: int = 1
    on: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def base_url(self) -> str:
        return f"http://{self.address}{self.path}"

    @property
    def health_url(self) -> str:
        return f"http://{self.address}/zodbrepl/health"

    @property
    def program(self) -> str:
        """Return the name of its program under supervisor."""
        return f"indico-{self.name}"

    @property
    def programs(self) -> tuple[str, ...]:
        """Return its program and the scheduler that runs beside it, if any."""
        return (self.program, self.scheduler_program) if self.scheduler else (self.program,)

    @property
    def scheduler_program(self) -> str:
        """Return the name of the program of a scheduler that runs beside it.

        Several hosts have one each, which needs a name of its own in the whole cluster.
        """
        return SCHEDULER if self.on is None else f"{SCHEDULER}-{self.name}"

    @property
    def of_scheduler(self) -> IndicoInstance:
        """Return the instance as its scheduler sees it, with its own settings, logs and folders."""
        return dataclasses.replace(self, name=f"{self.name}/scheduler")


@dataclasses.dataclass(frozen=True)
class Admin:
    """The admin page.

    Attributes:
        read_only: True if it never begins operations.
        public_url: external URL, if it differs from the listening address; ends in /.
        trusted_proxy: address whose X-Forwarded-For and X-Forwarded-Proto are trusted.
        on: as of a node.
    """

    host: str
    port: int
    read_only: bool = False
    public_url: str | None = None
    trusted_proxy: str | None = None
    on: str | None = None

    program = "admin"

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def base_url(self) -> str:
        return self.public_url or f"http://{self.address}/"

    @property
    def path_prefix(self) -> str:
        """Return the prefix of all page paths, such as ``/zodb``, or ''."""
        return urllib.parse.urlsplit(self.public_url or "").path.rstrip("/")

    def is_public_host(self, host: str, scheme: str) -> bool:
        """Return True if a Host header and scheme match ``public_url``."""
        standard = {"http": ":80", "https": ":443"}[scheme]
        own = urllib.parse.urlsplit(self.public_url or "")
        return (own.scheme, own.netloc) == (scheme, host.lower().removesuffix(standard))


class Encryption(enum.StrEnum):
    """The encryption of an SMTP connection."""

    NONE = "none"
    STARTTLS = "starttls"
    TLS = "tls"


@dataclasses.dataclass(frozen=True)
class Mail:
    """The mail of Indico and its scheduler.

    Attributes:
        user, password_file: login at the server; both or none.
        support: address that users write to.
        no_reply: sender of mails that nobody should answer.
    """

    server: Address
    support: str
    no_reply: str
    starttls: bool = False
    user: str | None = None
    password_file: Path | None = None


@dataclasses.dataclass(frozen=True)
class Watch:
    """The monitor.

    Attributes:
        lag_limit: seconds of lag above which an event is raised.
        failover_after: seconds after which a lost primary counts as gone.
        webhook: URL that events are posted to.
        webhook_secret_file: holds the secret that authenticates the requests.
        mail_server: SMTP server; requires ``mail_from`` and ``mail_to``.
        mail_user, mail_password_file: login there; both or none.
        on: as of a node.
    """

    host: str
    port: int
    lag_limit: float = 10.0
    failover_after: float = 10.0
    webhook: str | None = None
    webhook_secret_file: Path | None = None
    mail_server: Address | None = None
    mail_from: str | None = None
    mail_to: tuple[str, ...] = ()
    mail_encryption: Encryption = Encryption.NONE
    mail_user: str | None = None
    mail_password_file: Path | None = None
    on: str | None = None

    program = "watch"

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def metrics_url(self) -> str:
        return f"http://{self.address}/metrics"
