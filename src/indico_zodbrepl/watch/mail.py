"""Events as mail over SMTP."""

from __future__ import annotations

import email.message
import email.utils
import smtplib
import socket
from collections.abc import Sequence

from indico_zodbrepl.cluster.model import Address
from indico_zodbrepl.watch.courier import DeliveryError
from indico_zodbrepl.watch.events import Event, Weight
from indico_zodbrepl.watch.stream import lines

SECONDS = 10.0
"""For each step of the exchange."""
SUBJECT_LENGTH = 120


class Mail:
    """Sends one mail for the events of one moment.

    Args:
        cluster: name of the cluster.
        server: SMTP server; it is talked to without a password, and without encryption.
        sender, recipients: mail addresses.
        seconds: time limit of each step.
    """

    name = "mail"

    def __init__(self, cluster: str, server: Address, sender: str, recipients: Sequence[str],
                 seconds: float = SECONDS) -> None:
        self._cluster = cluster
        self._server = server
        self._sender = sender
        self._recipients = list(recipients)
        self._seconds = seconds

    def deliver(self, events: Sequence[Event]) -> None:
        """See ``Recipient``."""
        try:
            with smtplib.SMTP(self._server.host, self._server.port, timeout=self._seconds,
                              local_hostname=socket.gethostname()) as server:
                refused = server.send_message(self.message(events))
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryError(f"{self._server}: {error or type(error).__name__}") from error
        if refused:
            raise DeliveryError(f"{self._server} refuses {', '.join(refused)}")

    def message(self, events: Sequence[Event]) -> email.message.EmailMessage:
        """The mail: its subject is the event that matters most."""
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
