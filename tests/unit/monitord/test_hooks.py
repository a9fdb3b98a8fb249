"""Events reach a web server and a mail server; what they do delays nobody but themselves."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any, ClassVar

import pytest
from situations import cluster

from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.cluster.programs import Encryption, Watch
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.mail import Mail
from indico_zodbrepl.monitord.notifiers import MOST_WAITING, DeliveryError, Notifier
from indico_zodbrepl.monitord.program import recipients
from indico_zodbrepl.monitord.secret import read_secret
from indico_zodbrepl.monitord.webhook import Webhook

PATIENCE = 60.0
DOWN = Event(
    1795172767.0,
    Kind.STATE,
    Weight.CRITICAL,
    "",
    "DOWN: nothing can be saved",
    "was healthy",
    "bring a back",
)
ALERT = Event(1795172767.0, Kind.ALERT, Weight.WARNING, "b", "secondary b is stopped")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextlib.contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


class WebServer(http.server.HTTPServer):
    """Answers with each of ``statuses`` in turn, then with 204; keeps what it was posted."""

    def __init__(self, statuses: Sequence[int] = ()) -> None:
        self.statuses = list(statuses)
        self.posted: list[tuple[str, dict[str, str], Any]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?to=us"


class Handler(http.server.BaseHTTPRequestHandler):
    server: WebServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posted.append((self.path, dict(self.headers), body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 204)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("open-sesame\n")
    path.chmod(0o600)
    return path


def test_events_are_posted_as_json_with_the_secret(secret: Path) -> None:
    server = WebServer()
    with serving(server):
        Webhook("demo", server.url, secret).deliver([DOWN, ALERT])
    ((path, headers, body),) = server.posted
    assert ("/hook?to=us", "Bearer open-sesame", "application/json") == (
        path,
        headers["Authorization"],
        headers["Content-Type"],
    )
    assert {"cluster": "demo", "events": [DOWN.to_json(), ALERT.to_json()]} == body


def test_without_a_secret_none_is_sent() -> None:
    server = WebServer()
    with serving(server):
        Webhook("demo", server.url, None).deliver([DOWN])
    assert "Authorization" not in server.posted[0][1]


@pytest.mark.parametrize("status", [302, 401, 500])
def test_another_answer_than_success_is_a_failure_and_no_redirect_is_followed(status: int) -> None:
    server = WebServer([status])
    with serving(server), pytest.raises(DeliveryError, match=f"HTTP {status}"):
        Webhook("demo", server.url, None).deliver([DOWN])


def test_a_receiver_that_never_answers_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        webhook = Webhook("demo", f"http://127.0.0.1:{silent.getsockname()[1]}/", None, 0.1)
        with pytest.raises(DeliveryError, match="timed out"):
            webhook.deliver([DOWN])


def test_nobody_there_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(DeliveryError, match="refused"):
        Webhook("demo", f"http://127.0.0.1:{port}/", None).deliver([DOWN])


def test_https_is_checked_so_that_the_secret_goes_to_nobody_else(secret: Path) -> None:
    """A server that does not even speak TLS gets nothing."""
    server = WebServer()
    with serving(server), pytest.raises(DeliveryError):
        Webhook("demo", server.url.replace("http:", "https:"), secret).deliver([DOWN])
    assert [] == server.posted
    assert ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("content", "mode", "expected"),
    [
        ("open-sesame", 0o644, "others may read it"),
        ("open-sesame", 0o640, "others may read it"),
        ("", 0o600, "printable ASCII"),
        ("two lines\nof it", 0o600, "printable ASCII"),
        ("x" * 2000, 0o600, "printable ASCII"),
        ("caf\u00e9", 0o600, "printable ASCII"),
    ],
)
def test_a_secret_that_others_may_read_or_that_no_header_can_carry_is_refused(
    secret: Path, content: str, mode: int, expected: str
) -> None:
    secret.write_text(content)
    secret.chmod(mode)
    watch = Watch("", 0, webhook="http://127.0.0.1:1/", webhook_secret_file=secret)
    with pytest.raises(OperatorError) as caught:
        list(recipients(cluster(), watch))
    assert ExitCode.BAD_CONFIG == caught.value.exit_code
    assert expected in caught.value.detail
    assert content == "" or content not in str(caught.value)


def test_a_secret_that_is_gone_later_is_a_failed_delivery(secret: Path) -> None:
    assert "open-sesame" == read_secret(secret, "it")
    secret.unlink()
    with pytest.raises(DeliveryError, match="can't be read"):
        Webhook("demo", "http://127.0.0.1:1/", secret).deliver([DOWN])


class MailServer(socketserver.TCPServer):
    """Speaks enough SMTP to take one mail; ``refuses`` says which command it turns down."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.mails: list[bytes] = []
        super().__init__(("127.0.0.1", 0), MailHandler)

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.server_address[1])


class MailHandler(socketserver.StreamRequestHandler):
    server: MailServer
    answers: ClassVar = {"DATA": b"354 go on\r\n", "QUIT": b"221 bye\r\n"}

    def handle(self) -> None:
        self.wfile.write(b"220 hello\r\n")
        while line := self.rfile.readline():
            word = line.decode().split()[0].upper()
            if word == self.server.refuses:
                self.wfile.write(b"550 no\r\n")
                continue
            self.wfile.write(self.answers.get(word, b"250 fine\r\n"))
            if word == "DATA":
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                self.wfile.write(b"250 fine\r\n")


def test_events_of_one_moment_are_one_mail_named_by_the_gravest() -> None:
    server = MailServer()
    with serving(server):
        Mail("demo", server.address, "us@example.org", ["a@example.org", "b@example.org"]).deliver(
            [ALERT, DOWN]
        )
    mail = message_from_bytes(server.mails[0], policy=policy.default)
    assert "[zodbrepl demo] critical: DOWN: nothing can be saved (+1)" == mail["Subject"]
    assert ("us@example.org", "a@example.org, b@example.org") == (mail["From"], mail["To"])
    text = mail.get_content()
    assert "2026-11-20 11:06:07  warning   secondary b is stopped" in text
    assert "HINT: bring a back" in text


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA"])
def test_a_mail_server_that_refuses_is_a_failure(command: str) -> None:
    server = MailServer(refuses=command)
    with serving(server), pytest.raises(DeliveryError):
        Mail("demo", server.address, "us@example.org", ["a@example.org"]).deliver([DOWN])


def test_a_mail_server_that_says_nothing_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mail = Mail(
            "demo", Address(*silent.getsockname()), "us@example.org", ["a@b.org"], seconds=0.1
        )
        with pytest.raises(DeliveryError, match="timed out"):
            mail.deliver([DOWN])


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of 127.0.0.1, with its key; this process trusts it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl, which makes a certificate")
    path = tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=a test",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-days",
            "2",
            "-keyout",
            path,
            "-out",
            path,
        ],
        check=True,
        capture_output=True,
    )
    pem = path.read_text()
    key, _, public = pem.rpartition("-----BEGIN CERTIFICATE-----")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(f"-----BEGIN CERTIFICATE-----{public}")
    path.write_text(trusted.read_text() + key)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    return path


class SecureMailServer(MailServer):
    """Has a certificate, and takes mail from "ann" with the password "open-sesame" alone.

    Args:
        at_once: whether it speaks TLS from the first byte on; else when it is asked to.
    """

    def __init__(self, certificate: Path, *, at_once: bool) -> None:
        super().__init__()
        self.RequestHandlerClass = SecureMailHandler
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(certificate)
        self.at_once = at_once


class SecureMailHandler(MailHandler):
    server: SecureMailServer

    def setup(self) -> None:
        super().setup()
        self.encrypted = self.known = False

    def encrypt(self) -> None:
        plain = self.rfile, self.wfile
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()
        self.encrypted = True
        for each in plain:
            each.close()

    def finish(self) -> None:
        super().finish()
        self.request.close()

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the client does not trust the certificate
            if self.server.at_once:
                self.encrypt()
            self.wfile.write(b"220 hello\r\n")
            while line := self.rfile.readline():
                self.answer(line.split())

    def answer(self, words: list[bytes]) -> None:
        word = words[0].upper()
        if word == b"EHLO":
            more = b"AUTH PLAIN" if self.encrypted else b"STARTTLS"
            self.wfile.write(b"250-here\r\n250 " + more + b"\r\n")
        elif word == b"STARTTLS":
            self.wfile.write(b"220 begin\r\n")
            self.encrypt()
        elif word == b"AUTH":
            self.known = base64.b64decode(words[2]) == b"\0ann\0open-sesame"
            self.wfile.write(b"235 welcome\r\n" if self.known else b"535 no\r\n")
        elif not self.known and word != b"QUIT":
            self.wfile.write(b"530 log in first\r\n")
        else:
            self.wfile.write(self.answers.get(word.decode(), b"250 fine\r\n"))
            if word == b"DATA":
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                self.wfile.write(b"250 fine\r\n")


def mail_to(server: MailServer, encryption: Encryption, secret: Path | None) -> Mail:
    return Mail(
        "demo",
        server.address,
        "us@example.org",
        ["a@example.org"],
        encryption=encryption,
        login=None if secret is None else ("ann", secret),
    )


@pytest.mark.parametrize("encryption", [Encryption.STARTTLS, Encryption.TLS])
def test_mail_goes_encrypted_to_a_server_that_wants_a_login(
    certificate: Path, secret: Path, encryption: Encryption
) -> None:
    server = SecureMailServer(certificate, at_once=encryption is Encryption.TLS)
    with serving(server):
        mail_to(server, encryption, secret).deliver([DOWN])
        secret.write_text("another")
        with pytest.raises(DeliveryError, match="535"):
            mail_to(server, encryption, secret).deliver([DOWN])
        secret.chmod(0o644)
        with pytest.raises(DeliveryError, match="others may read it"):
            mail_to(server, encryption, secret).deliver([DOWN])
    assert 1 == len(server.mails)


@pytest.mark.parametrize("encryption", [Encryption.STARTTLS, Encryption.TLS])
def test_a_mail_server_that_nobody_vouches_for_gets_no_password(
    certificate: Path, secret: Path, encryption: Encryption, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    server = SecureMailServer(certificate, at_once=encryption is Encryption.TLS)
    with serving(server), pytest.raises(DeliveryError, match="CERTIFICATE_VERIFY_FAILED"):
        mail_to(server, encryption, secret).deliver([DOWN])
    assert [] == server.mails


def test_mail_is_never_sent_in_the_clear_where_encryption_is_asked_for() -> None:
    server = MailServer()
    with serving(server), pytest.raises(DeliveryError, match="STARTTLS"):
        mail_to(server, Encryption.STARTTLS, None).deliver([DOWN])
    assert [] == server.mails


def test_an_unusable_password_for_mail_is_told_at_the_start(secret: Path) -> None:
    secret.chmod(0o640)
    watch = Watch(
        "",
        0,
        mail_server=Address("127.0.0.1", 25),
        mail_from="us@example.org",
        mail_to=("a@example.org",),
        mail_encryption=Encryption.TLS,
        mail_user="ann",
        mail_password_file=secret,
    )
    with pytest.raises(OperatorError, match="the password for mail can't be used"):
        list(recipients(cluster(), watch))


class Recipient:
    """Fails as often as it is told to, then takes everything; waits at ``gate`` if it is shut."""

    name = "test"

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.taken: list[Event] = []
        self.gate = threading.Event()
        self.gate.set()

    def deliver(self, events: Sequence[Event]) -> None:
        self.gate.wait(PATIENCE)
        if self.failures:
            self.failures -= 1
            raise DeliveryError("no luck")
        self.taken += events


class Lost:
    """Keeps what notifiers gave up."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event, str]] = []

    def __call__(self, name: str, events: Sequence[Event], reason: str) -> None:
        self.events += [(name, event, reason) for event in events]


def numbered(number: int) -> Event:
    return Event(float(number), Kind.WATCH, Weight.NOTICE, "", str(number))


def test_what_fails_is_tried_again_and_the_order_stays() -> None:
    recipient, lost = Recipient(failures=3), Lost()
    notifier = Notifier(recipient, lost, backoff=(0.01,))
    notifier.start()
    for number in range(3):
        notifier.take([numbered(number)])
    until(lambda: notifier.undelivered() == 0)
    assert [numbered(number) for number in range(3)] == recipient.taken
    assert (3, 0, 3) == (notifier.counts.delivered, notifier.counts.failed, notifier.counts.retried)
    assert [] == lost.events


def test_what_fails_for_too_long_is_given_up_and_reported() -> None:
    recipient, lost = Recipient(failures=10**6), Lost()
    notifier = Notifier(recipient, lost, backoff=(0.01,), give_up_after=0.05)
    notifier.start()
    notifier.take([DOWN])
    until(lambda: bool(lost.events))
    assert [("test", DOWN, "no luck")] == lost.events
    recipient.failures = 0
    notifier.take([ALERT])
    until(lambda: recipient.taken == [ALERT])


def test_a_recipient_that_hangs_delays_nobody_and_fills_no_memory() -> None:
    recipient, lost = Recipient(), Lost()
    recipient.gate.clear()
    notifier = Notifier(recipient, lost)
    notifier.start()
    for number in range(MOST_WAITING + 20):
        notifier.take([numbered(number)])
    assert MOST_WAITING == notifier.undelivered()
    assert 20 == len(lost.events)
    recipient.gate.set()
    until(lambda: notifier.undelivered() == 0)
    assert numbered(MOST_WAITING + 19) == recipient.taken[-1]
