"""Of the schedulers of several hosts one runs, by Indico's own record in a database."""
import os

import pytest
import transaction
import ZODB
from indico.modules.scheduler.module import SchedulerModule
from ZODB.POSException import ConflictError

from indico_zodbrepl.dataplane.indico import scheduler_record
from indico_zodbrepl.dataplane.indico.peers import Epoch
from indico_zodbrepl.dataplane.indico.scheduler_record import AnotherRuns, SeveralHosts

NODES = {'a': '127.77.0.11:8111', 'b': '127.77.0.12:8111'}
TAKEOVER = 120


class Answers(object):
    """What a majority of the hosts says, made up."""

    def __init__(self, answer):
        self.answer = answer

    def newest(self):
        return self.answer


class Scheduler(object):
    """The scheduler of a host, with a connection of its own."""

    def __init__(self, db, host):
        self.peers = Answers(Epoch(1, 'a'))
        self.server = NODES['a']
        self.record = SeveralHosts(host, self.peers, NODES, TAKEOVER, lambda: self.server)
        self._manager = transaction.TransactionManager()
        self._root = db.open(self._manager).root()

    @property
    def module(self):
        return self._root['scheduler']

    def why_waiting(self):
        self._manager.begin()
        return self.record.why_waiting(self.module)

    def claim(self):
        self.record.claim(self.module)

    def renew(self):
        self._manager.begin()
        self.module._p_changed = True
        self.commit()

    def commit(self):
        try:
            self._manager.commit()
        except ConflictError:
            self._manager.abort()
            raise

    def run(self):
        assert self.why_waiting() is None
        self.claim()
        self.commit()


@pytest.fixture
def db():
    db = ZODB.DB(None)
    with db.transaction() as connection:
        connection.root()['scheduler'] = SchedulerModule()
    yield db
    db.close()


@pytest.fixture
def clock(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(scheduler_record, 'monotonic', lambda: clock[0])
    return clock


@pytest.fixture
def one(db, clock):
    return Scheduler(db, 'one')


@pytest.fixture
def two(db, clock):
    return Scheduler(db, 'two')


def test_one_of_two_that_claim_at_the_same_time_runs(one, two):
    assert [None, None] == [one.why_waiting(), two.why_waiting()]
    one.claim()
    two.claim()
    one.commit()
    with pytest.raises(ConflictError):
        two.commit()
    assert 'the scheduler of host one runs' == two.why_waiting()
    assert ('one', os.getpid()) == (one.module._hostname, one.module._pid)


def test_it_waits_while_the_other_one_renews_its_record(one, two, clock):
    one.run()
    for _ in range(3):
        assert 'the scheduler of host one runs' == two.why_waiting()
        clock[0] += TAKEOVER - 1
        one.renew()
    assert 'the scheduler of host one runs' == two.why_waiting()


def test_it_takes_over_from_a_silent_one_which_starts_no_further_task(one, two, clock):
    one.run()
    assert two.why_waiting() is not None
    clock[0] += TAKEOVER
    assert two.why_waiting() is None
    # The silent one comes to life, and starts a task in a transaction that began before.
    assert one.record.is_own(one.module)
    two.claim()
    two.commit()
    one.module.getRunningList().append('task')
    one.module._p_changed = True
    with pytest.raises(ConflictError):
        one.commit()
    one._manager.begin()
    assert not one.record.is_own(one.module)
    with pytest.raises(AnotherRuns):
        one.claim()


def test_it_does_not_take_over_what_was_renewed_in_the_last_moment(one, two, clock):
    one.run()
    two.why_waiting()
    clock[0] += TAKEOVER
    assert two.why_waiting() is None
    one.renew()
    two._manager.begin()
    with pytest.raises(AnotherRuns):
        two.claim()


def test_a_later_epoch_begins_the_wait_anew(one, two, clock):
    one.run()
    two.why_waiting()
    clock[0] += TAKEOVER
    two.peers.answer = Epoch(2, 'a')
    assert 'the scheduler of host one runs' == two.why_waiting()
    clock[0] += TAKEOVER
    assert two.why_waiting() is None


@pytest.mark.parametrize('answer, expected', [
    (None, 'fewer than a majority of the hosts answer'),
    (Epoch(2, 'b'), 'not connected to node b, the primary of epoch 2'),
])
def test_it_does_nothing_apart_from_the_others_or_at_a_primary_that_was_replaced(
        one, answer, expected):
    one.peers.answer = answer
    assert expected == one.why_waiting() == one.record.why_apart()
    one.server = NODES['b']
    one.peers.answer = Epoch(2, 'b')
    assert one.why_waiting() is None


def test_a_clean_stop_lets_the_other_one_run_but_not_while_tasks_run(one, two):
    one.run()
    one.record.release(one.module, True)
    assert one.record.is_own(one.module)
    one.record.release(one.module, False)
    one.commit()
    assert two.why_waiting() is None
