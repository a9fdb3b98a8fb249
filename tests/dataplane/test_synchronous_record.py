"""What synchronous.json tells of the commits that a primary has acknowledged."""
import json

from ZODB.utils import p64
import pytest

from indico_zodbrepl.dataplane.server.acknowledgement_states import (
    ALONE, DEGRADE, OFF, REFUSE, REFUSING, STARTING, SYNCHRONOUS, WAITING, Settings)
from indico_zodbrepl.dataplane.server.acknowledgements import Acknowledgements
from indico_zodbrepl.dataplane.zrs.confirmations import Confirmations, answer


class Primary(object):
    """A primary with one transaction, and one follower, which confirms what a test says."""

    def __init__(self):
        self.confirmations = Confirmations()

    def lastTransaction(self):
        return p64(1)

    def ask(self, question):
        self.confirmations.question = question

    def confirmed(self, tid):
        """Note that the follower has everything up to a transaction."""
        self.confirmations.heard('link', answer('f', self.confirmations.question, tid))

    def lost(self):
        """Note that the connection to the follower has ended."""
        self.confirmations.left('link')


class Loop(object):
    """An event loop whose calls a test makes."""

    def __init__(self):
        self.calls = []

    def call_soon(self, call):
        self.calls.append(call)

    call_soon_threadsafe = call_soon

    def call_later(self, seconds, call):
        pass


@pytest.fixture
def primary():
    return Primary()


@pytest.fixture
def acknowledgements(tmpdir, primary):
    """Those of a primary that goes on alone, and has acknowledged its transaction 2 so."""
    found = Acknowledgements(
        Settings(1, 'fsync', 0.0, DEGRADE), False, str(tmpdir), 'p', Loop(), lambda: None, None)
    found.serve(primary, 3, True)
    found._go_alone()
    found.expect(p64(2), lambda: None, lambda: None)
    found._look()
    found._before = p64(1)
    return found


def recorded(tmpdir):
    found = json.loads(tmpdir.join('synchronous.json').read())
    return found['state'], found['epoch']


def test_the_record_says_alone_until_followers_have_everything(tmpdir, primary, acknowledgements):
    primary.confirmed(p64(1))
    acknowledgements._look()
    assert WAITING == acknowledgements.state
    assert (ALONE, 3) == recorded(tmpdir), 'clients were told that transaction 2 is saved'
    acknowledgements.enter(4)
    assert (ALONE, 4) == recorded(tmpdir)
    primary.confirmed(p64(2))
    acknowledgements._look()
    assert SYNCHRONOUS == acknowledgements.state
    assert (SYNCHRONOUS, 4) == recorded(tmpdir)
    primary.lost()
    acknowledgements._look()
    assert (WAITING, 4) == recorded(tmpdir)


def test_a_primary_that_was_alone_and_refuses_commits_keeps_the_record(
        tmpdir, primary, acknowledgements):
    acknowledgements.change(Settings(1, 'fsync', 0.0, REFUSE))
    acknowledgements._without_followers()
    assert REFUSING == acknowledgements.state
    assert (ALONE, 3) == recorded(tmpdir)


def test_a_restarted_primary_that_is_to_refuse_commits_does_not_go_on_alone(
        tmpdir, primary, acknowledgements):
    acknowledgements.stop()
    again = Acknowledgements(
        Settings(1, 'fsync', 60.0, REFUSE), False, str(tmpdir), 'p', Loop(), lambda: None, None)
    again.serve(primary, 3, False)
    assert STARTING == again.state
    assert (ALONE, 3) == recorded(tmpdir)


def test_what_was_acknowledged_without_waiting_stays_recorded(tmpdir, primary, acknowledgements):
    acknowledgements.change(Settings(0, 'fsync', 60.0, REFUSE))
    assert (OFF, 3) == recorded(tmpdir)
    acknowledgements.change(Settings(1, 'fsync', 60.0, REFUSE))
    assert WAITING == acknowledgements.state
    assert (ALONE, 3) == recorded(tmpdir)


def test_the_record_outlives_the_role(tmpdir, primary, acknowledgements):
    acknowledgements.stop()
    assert (ALONE, 3) == recorded(tmpdir)
