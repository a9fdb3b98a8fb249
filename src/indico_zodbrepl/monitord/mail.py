"""Events as mail over SMTP."""

from __future__ import annotations

import email.message
import email.utils
import smtplib
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.cluster.programs import Encryption
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.monitord.events import Event, Weight
from indico_zodbrepl.monitord.notifiers import DeliveryError
from indico_zodbrepl.monitord.secret import read_secret
from indico_zodbrepl.monitord.stream import lines

SECONDS = 10.0
"""For each step of the exchange."""
SUBJECT_LENGTH = 120
PROVEN_BY = "the password for mail"


class Mail:
    """A recipient that gets one mail for the events of one moment.

    Args:
        cluster: name of the cluster.
        server: SMTP server.
        sender, recipients: mail addresses.
        encryption: of the connection; certificates are checked against the system's authorities.
        login: user, and the file with the password, read each time; None: no login.
        seconds: time limit of each step.
    """

    name = "mail"

    def __init__(
        self,
        cluster: str,
        server: Address,
        sender: str,
        recipients: Sequence[str],
        *,
        encryption: Encryption = Encryption.NONE,
        login: tuple[str, Path] | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._cluster = cluster
        self._server = server
        self._sender = sender
        self._recipients = list(recipients)
        self._encryption = encryption
        self._login = login
        self._seconds = seconds

    def deliver(self, events: Sequence[Event]) -> None:
        """Send the events; see ``Recipient``."""
        try:
            with self._connected() as server:
                if self._login:
                    user, password_file = self._login
                    server.login(user, read_secret(password_file, PROVEN_BY))
                refused = server.send_message(self.message(events))
        except OperatorError as error:
            raise DeliveryError(error.detail) from error
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryError(f"{self._server}: {error or type(error).__name__}") from error
        if refused:
            raise DeliveryError(f"{self._server} refuses {', '.join(refused)}")

    def _connected(self) -> smtplib.SMTP:
        """Connect, with encryption from the start if configured."""
        host, port, name = self._server.host, self._server.port, socket.gethostname()
        if self._encryption is Encryption.TLS:
            return smtplib.SMTP_SSL(
                host, port, name, timeout=self._seconds, context=ssl.create_default_context()
            )
        server = smtplib.SMTP(host, port, name, timeout=self._seconds)
        if self._encryption is Encryption.STARTTLS:
            try:
                server.starttls(context=ssl.create_default_context())
            except BaseException:
                server.close()
                raise
        return server

    def message(self, events: Sequence[Event]) -> email.message.EmailMessage:
        """Return the mail; its subject is the most severe event."""
        first = min(events, key=lambda event: list(Weight).index(event.weight))
        more = f" (+{len(events) - 1})" if len(events) > 1 else ""
        made = email.message.EmailMessage()
        made["From"] = self._sender
        made["To"] = ", ".join(self._recipients)
        made["Date"] = email.utils.formatdate(first.at)
        made["Message-ID"] = email.utils.make_msgid(domain=self._sender.rpartition("@")[2])
        made["Auto-Submitted"] = "auto-generated"
        text = f"[zodbrepl {self._cluster}] {first.weight}: {first.text}"
        made["Subject"] = text[:SUBJECT_LENGTH] + more
        made.set_content("\n".join(line for event in events for line in lines(event)) + "\n")
        return made
