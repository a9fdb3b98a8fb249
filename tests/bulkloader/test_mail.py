"""While data is loaded no mail leaves the process."""
import asyncore
import smtpd
import smtplib
import threading

import pytest

from bulkloader.mail import no_mail
from homes import SCRIPTS, Result

ERRORS_BY_MAIL = """
[loggers]
keys=root

[handlers]
keys=smtp

[formatters]
keys=mailFormatter

[logger_root]
level=WARNING
handlers=smtp

[handler_smtp]
class=handlers.SMTPHandler
level=ERROR
formatter=mailFormatter

[formatter_mailFormatter]
format=%(message)s
"""


class Sink(smtpd.SMTPServer):
    """Receives mail on a free port of 127.0.0.1, in a thread of its own."""

    def __init__(self):
        self.received = []
        smtpd.SMTPServer.__init__(self, ('127.0.0.1', 0), None)
        self.port = self.socket.getsockname()[1]
        self._open = True
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while self._open:
            asyncore.loop(timeout=0.05, count=1)

    def process_message(self, peer, sender, receivers, data):
        self.received.append((sender, receivers))

    def stop(self):
        self._open = False
        self._thread.join()
        self.close()


@pytest.fixture
def sink():
    server = Sink()
    try:
        yield server
    finally:
        server.stop()


def send(port):
    server = smtplib.SMTP('127.0.0.1', port)
    server.sendmail('from@conference.invalid', ['to@conference.invalid'], 'Subject: x\r\n\r\ny')
    server.quit()


def test_the_sink_receives_what_is_sent_outside(sink):
    send(sink.port)
    assert [('from@conference.invalid', ['to@conference.invalid'])] == sink.received


def test_nothing_is_sent_inside_and_what_was_dropped_is_known(sink):
    with no_mail() as dropped:
        send(sink.port)
    assert [] == sink.received
    assert [('from@conference.invalid', ['to@conference.invalid'],
             'Subject: x\r\n\r\ny')] == dropped


def test_mail_works_again_afterwards(sink):
    with no_mail():
        pass
    send(sink.port)
    assert 1 == len(sink.received)


@pytest.fixture
def mailing_home(new_home, sink):
    """An Indico that mails to the sink, its errors too."""
    home = new_home(smtp_port=sink.port)      # Indico's log may mail from its import on
    home.folder.join('etc', 'logging.conf').write(ERRORS_BY_MAIL)
    return home


def receivers(sink):
    return set(receiver for _, receivers in sink.received for receiver in receivers)


def test_outside_the_loader_this_indico_mails(mailing_home, sink):
    result = Result(mailing_home.start(SCRIPTS.join('mailing.py'), 'outside'))
    assert 0 == result.code, result.text
    assert set(['support@conference.invalid', 'to@conference.invalid']) == receivers(sink)


def test_a_load_sends_nothing_though_indico_wants_to(mailing_home, sink):
    result = Result(mailing_home.start(
        SCRIPTS.join('mailing.py'), 'inside', '--conferences', '3', '--contributions', '1'))
    assert 0 == result.code, result.text
    assert [] == sink.received
    assert 3 == mailing_home.bulkload('verify --json').json['conferences']
