"""Keep this process from sending mail while data is loaded."""
import contextlib
import smtplib


@contextlib.contextmanager
def no_mail():
    """Drop all mail of this process: Indico's own and that of its log's mail handler.

    Enter it before Indico is imported, since its log may mail from then on.
    Yields a list that receives what was dropped, as (sender, receivers, message).
    """
    dropped = []

    class Nowhere(object):
        """Takes the place of `smtplib.SMTP`: connects to nothing and accepts everything."""

        def __init__(self, *args, **kwargs):
            pass

        def ehlo(self):
            return 250, ''

        def starttls(self):
            return 220, ''

        def login(self, user, password):
            return 235, ''

        def sendmail(self, sender, receivers, message):
            dropped.append((sender, receivers, message))
            return {}

        def quit(self):
            return 221, ''

    before = smtplib.SMTP
    smtplib.SMTP = Nowhere
    try:
        yield dropped
    finally:
        smtplib.SMTP = before
