"""Indico sends mail only when cluster.conf names a mail server."""

from __future__ import annotations

import contextlib
import socketserver
import subprocess
import threading
from pathlib import Path
from typing import ClassVar

import pytest
from clusters import MakeCluster, free_ports

from indico_zodbrepl.cluster import Cluster, rendering
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import generated

SEND = """
import MaKaC.common
from indico.core.config import Config
from MaKaC.common.mail import GenericMailer
sender = Config.getInstance().getNoReplyEmail()
GenericMailer.send({'fromAddr': sender, 'toList': ['ann@example.org'], 'subject': 'Hello',
                    'body': 'You are registered.'})
"""


class Sink(socketserver.StreamRequestHandler):
    """An SMTP server that accepts every mail."""

    mails: ClassVar[list[str]] = []

    def handle(self) -> None:
        self.wfile.write(b"220 sink\r\n")
        lines: list[str] = []
        reading = False
        for line in map(bytes.decode, self.rfile):
            if reading:
                lines.append(line)
                if line != ".\r\n":
                    continue
                reading = False
                self.mails.append("".join(lines))
            word = line[:4].upper()
            reading = word == "DATA"
            self.wfile.write(b"354 go on\r\n" if reading else b"250 ok\r\n")
            if word == "QUIT":
                return


def send(cluster: Cluster, installation: Installation) -> subprocess.CompletedProcess[str]:
    generated.make_directories(cluster)
    instance = cluster.indico[0]
    conf = Layout(cluster).indico_conf(instance)
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text(rendering.indico_conf(cluster, installation, instance))
    logging = Layout(cluster).logging_conf(instance)
    logging.write_text(rendering.logging_conf(cluster, instance))
    return subprocess.run(
        [installation.python27, "-c", SEND],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=installation.environment27(INDICO_CONF=str(conf)),
    )


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def test_mail_is_sent_to_the_named_server_and_to_none_by_default(
    make_cluster: MakeCluster, port: int
) -> None:
    under_test = make_cluster(indico=("one",))
    with contextlib.ExitStack() as opened:
        sink = opened.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", port), Sink))
        sink.daemon_threads = True
        opened.callback(sink.shutdown)
        threading.Thread(target=sink.serve_forever, daemon=True).start()
        done = send(under_test.cluster, under_test.installation)
        assert "Connection refused" in done.stderr
        assert not Sink.mails
        path: Path = under_test.path
        path.write_text(
            path.read_text()
            + "<mail>\n  smtp-server 127.0.0.1\n"
            + f"  smtp-port {port}\n  support-address help@example.org\n"
            + "  no-reply-address noreply@example.org\n</mail>\n"
        )
        done = send(under_test.cluster, under_test.installation)
        assert 0 == done.returncode, done.stderr
    [mail] = Sink.mails
    assert "From: noreply@example.org" in mail
    assert "You are registered." in mail
