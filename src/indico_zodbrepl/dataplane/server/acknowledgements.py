"""Commits that are acknowledged once enough followers have them.

A primary with `synchronous` answers a client, and shows other clients what it has committed, only
after so many followers have confirmed the transaction (see `zrs.confirmations`).  The horizon is the
last acknowledged transaction: nothing later is shown to any client.  `acknowledgement_states` has
the states.

Use everything here in the thread of the server's event loop.
"""
from __future__ import absolute_import

import functools
import logging
import os
from thread import get_ident

from ZODB.utils import p64, u64, z64

from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.server.acknowledgement_states import (
    ALONE,
    ASKING,
    DEGRADE,
    OFF,
    REFUSE,
    REFUSING,
    STARTING,
    SYNCHRONOUS,
    WAITING,
)
from indico_zodbrepl.dataplane.server.pending_commits import NEVER, PendingCommits, answer
from indico_zodbrepl.dataplane.server.synchronous_record import NAME, SHOWN, Record, Shown
from indico_zodbrepl.dataplane.zrs.confirmations import NONE, Question

logger = logging.getLogger('zodbrepl.synchronous')

# Seconds that a restarted primary waits for its followers before it serves clients.
START_LIMIT = 5.0
# Seconds that votes wait while a primary that went on alone lets its followers catch up.
RETURN_LIMIT = 1.0
INTERVAL = 0.05


class Acknowledgements(object):
    """Decides when a primary acknowledges its transactions, and whether commits may begin.

    Args:
        settings: `acknowledgement_states.Settings`.
        when_told: True if it goes on alone only after the order `alone`.
        folder: for the files with its state.
        node: the name of this node, whose own confirmations would not count.
        loop: the event loop.
        changed: called when `waits` or `refusal` may have changed.
        reveal: called with the id and the objects' ids of a transaction of an earlier process when it
            is acknowledged.

    Attributes:
        settings: see above.
        state: see above.
        horizon: id of the last acknowledged transaction; None if all count as acknowledged.
    """

    def __init__(self, settings, when_told, folder, node, loop, changed, reveal):
        self.settings = settings
        self._when_told = when_told
        self._node = node
        self._record = Record(os.path.join(folder, NAME), node)
        self._shown = Shown(os.path.join(folder, SHOWN))
        self._loop = loop
        self._changed = changed
        self._reveal = reveal
        self._primary = self._epoch = self.horizon = None
        self.state = OFF
        self._since = monotonic()
        self._pending = PendingCommits()
        self._settling = []
        self._last = self._before = z64
        self._up_to_date = set()
        self._members = None
        self._is_told = self._asks_in_vain = self._look_is_due = self._ticks = False
        # True if clients may have been told of transactions that followers lack.
        self._is_exposed = False
        self._limit = 0.0
        self._thread = None

    # The role of this server:

    def serve(self, primary, epoch, is_settled):
        """Acknowledge the commits of a primary from now on.

        Args:
            primary: a `zrs.links.Primary`.
            epoch: of this server.
            is_settled: True if clients may be shown at once what it has by now.
        """
        self._primary, self._epoch = primary, epoch
        self._start(is_settled)

    def enter(self, epoch):
        """Note that the primary is that of another epoch from now on: followers must know."""
        if self._primary is None or epoch == self._epoch:
            return
        self._epoch = epoch
        self._record.write(self._recorded(self.state), epoch, self.settings, self.horizon)
        if self.state != OFF:
            self._shown.write(epoch, self.horizon)
            self._ask()

    def stop(self):
        """Note that this server is no primary any more, or is superseded as such.

        Clients that still wait are told that the outcome is unknown.
        """
        if self._primary is None:
            return
        if self.state != OFF:
            # What was recorded last tells later which of its transactions were acknowledged.
            self._end(is_recorded=False)
        self._primary = None

    def give_up(self):
        """Tell the clients that wait now that the outcome of their commits is unknown."""
        self._pending.give_up()
        self._changed()

    def change(self, settings):
        """Use other settings from now on."""
        before, self.settings = self.settings, settings
        if self._primary is None:
            return
        if self.state == OFF:
            self._start(True, is_exposed=True)
        elif not settings.count:
            self._end()
        elif settings[:2] != before[:2] or self.state not in (STARTING, SYNCHRONOUS):
            self._ask()
            self._enter(WAITING)
            self._look()

    def go_alone(self):
        """Go on without followers, which is recorded elsewhere; return False if it does not wait."""
        if self.state != ASKING:
            return False
        self._is_told = True
        self._go_alone()
        return self.state == ALONE

    def _start(self, is_settled, is_exposed=False):
        if not self.settings.count:
            self._record.replace(OFF, self._epoch, self.settings)
            self._shown.forget()
            return
        self.horizon = self._last = self._before = self._primary.lastTransaction()
        if not is_settled:
            self._hide_what_was_not_shown()
        self._shown.write(self._epoch, self.horizon)
        self._up_to_date.clear()
        self._members = self._primary.confirmations.version
        self._is_told = False
        self._thread = get_ident()
        self._primary.confirmations.loop = self._loop
        self._primary.confirmations.changed = self._heard
        was_alone = not is_settled and self._record.holds(ALONE, self._epoch)
        self._is_exposed = is_exposed or was_alone
        if was_alone and self.settings.alone == DEGRADE:
            self._is_told = True
            self._enter(ALONE)
        else:
            self._enter(WAITING if is_settled else STARTING)
        self._ask()
        if not self._ticks:
            self._ticks = True
            self._tick()

    def _hide_what_was_not_shown(self):
        shown = self._shown.read(self._epoch)
        if shown is None or shown >= self._last:
            return
        self.horizon = shown
        for transaction in self._primary.iterator(p64(u64(shown) + 1)):
            oids = [record.oid for record in transaction]
            self._pending.add(
                transaction.tid, NEVER, functools.partial(self._reveal, transaction.tid, oids), None)

    def _end(self, is_recorded=True):
        self._primary.confirmations.loop = None
        self._primary.confirmations.changed = _nothing
        self._primary.ask(NONE)
        self.give_up()
        # From now on clients see what was never acknowledged.
        self._acknowledge_all()
        self._shown.forget()
        self.horizon = None
        self._enter(OFF, is_recorded=is_recorded)
        self._settle()

    def _ask(self):
        self._primary.ask(Question(self.settings.level, self._epoch))

    # The commits:

    def expect(self, tid, acknowledge, give_up):
        """Note a transaction that was committed here; they come in the order of their ids.

        Args:
            acknowledge: called when it is acknowledged; before those of later transactions.
            give_up: called before that if it takes too long.
        """
        self._last = tid
        self._pending.add(tid, self.settings.timeout, acknowledge, give_up)
        if self.state == ALONE:
            self._loop.call_soon(self._look)

    def after_pending(self, call):
        """Call `call` when all that is committed by now has been acknowledged or given up."""
        if not self._pending.after(call):
            self._loop.call_soon(call)

    def after_start(self, call):
        """Call `call` when clients may be served."""
        self._settling.append(call)

    @property
    def is_starting(self):
        return self.state == STARTING

    @property
    def has_pending(self):
        """Return True if a transaction is committed here and not acknowledged."""
        return len(self._pending) > 0

    @property
    def idle(self):
        """Return True if no client waits for the acknowledgement of its commit."""
        return not self._pending.has_clients

    # For the gate:

    @property
    def waits(self):
        """Return True if votes wait for followers."""
        return self.state in (STARTING, WAITING, ASKING) and not self._asks_in_vain

    @property
    def refusal(self):
        """Return why votes are refused, in words; None if they are not."""
        if self.state == REFUSING or self._asks_in_vain:
            return 'nothing was written: fewer than %d secondaries confirm commits (%s)' % (
                self.settings.count, self.settings.level)
        return None

    def status(self):
        """Return the value of the key "synchronous" of a status."""
        settings, confirmed = self.settings, self._confirmed()
        return {
            'state': self.state, 'count': settings.count, 'level': settings.level,
            'timeout': settings.timeout, 'alone': settings.alone,
            'acknowledged': self.horizon and self.horizon.encode('hex'),
            'in_doubt': self._pending.in_doubt,
            'confirming': {name: tid.encode('hex') for name, tid in confirmed.items()},
            'not_counted': {} if self.state == OFF else self._primary.confirmations.refused(),
            'since': monotonic() - self._since}

    # What followers confirm:

    def _heard(self, name, tid):
        """Called in the thread of the event loop, or of the reactor."""
        if get_ident() == self._thread:
            self._look()
        elif not self._look_is_due:
            self._look_is_due = True
            try:
                self._loop.call_soon_threadsafe(self._look)
            except RuntimeError:
                pass  # the server ends

    def visible(self, tid):
        """Return the id before which a transaction may be shown that is before `tid`."""
        if self.horizon is None or tid <= self.horizon:
            return tid
        return min(tid, p64(u64(self.horizon) + 1))

    def shows(self, tid):
        """Return True if a transaction may be shown to clients."""
        return self.horizon is None or tid <= self.horizon

    def _confirmed(self):
        if self.state == OFF:
            return {}
        confirmed = self._primary.confirmations.confirmed()
        confirmed.pop(self._node, None)
        return confirmed

    def _look(self):
        # First: what comes after this may be missed below.
        self._look_is_due = False
        if self.state == OFF:
            return
        confirmed, count = self._confirmed(), self.settings.count
        reached = _reached_by(count, confirmed)
        if self.state == ALONE:
            self._acknowledge_all()
        elif reached is not None:
            self._acknowledge(reached)
        if self._members != self._primary.confirmations.version:
            self._members = self._primary.confirmations.version
            if self.state == SYNCHRONOUS:
                # One that was removed may be the only one that has a commit.
                self._enter(WAITING)
        self._up_to_date.intersection_update(confirmed)
        self._up_to_date.update(name for name, tid in confirmed.items() if tid >= self._last)
        if self.state == ALONE and reached is not None and reached >= self._before:
            # They have all but the last moments, and get these while votes wait.
            self._enter(WAITING, RETURN_LIMIT)
        enough = len(self._up_to_date) >= count
        if self.state == SYNCHRONOUS and not enough:
            self._enter(WAITING)
        elif self.state != ALONE and enough and reached is not None and reached >= self._last:
            # So many have everything; one that was up to date once may be late by now.
            self._enter(SYNCHRONOUS)

    def _tick(self):
        if self.state == OFF:
            self._ticks = False
            return
        self._look()
        self._before = self._last
        if self.state == STARTING and self._lasts(START_LIMIT):
            self._enter(WAITING)
        is_late = self._pending.is_late
        if is_late:
            self._up_to_date.clear()
        has_waited = self.state == WAITING and self._lasts(self._limit)
        if has_waited or is_late and self.state in (SYNCHRONOUS, WAITING):
            self._without_followers()
        elif self.state == ASKING and not self._asks_in_vain and self._lasts(self._limit):
            self._asks_in_vain = True
            self.give_up()
        self._record.retry()
        self._loop.call_later(INTERVAL, self._tick)

    def _without_followers(self):
        if self.settings.alone == REFUSE:
            self._enter(REFUSING)
            self.give_up()
        elif self._when_told and not self._is_told:
            self._enter(ASKING)
        else:
            self._go_alone()

    def _go_alone(self):
        self._enter(ALONE)
        if self.state == ALONE:
            self._acknowledge_all()

    def _acknowledge(self, reached):
        if self._pending.begins_by(reached):
            self._shown.write(self._epoch, min(reached, self._last))
        for tid in self._pending.acknowledge(reached):
            # Before the client is answered.
            self.horizon = max(self.horizon, tid)

    def _acknowledge_all(self):
        self._acknowledge(self._last)

    def _lasts(self, seconds):
        """Return True if the state is that old."""
        return monotonic() - self._since > seconds

    def _enter(self, state, limit=None, is_recorded=True):
        if state == self.state:
            return
        # Before the first transaction that is acknowledged in this state.
        is_written = is_recorded and self._record.write(
            self._recorded(state), self._epoch, self.settings, self.horizon)
        if state == ALONE and not is_written:
            if self.state != REFUSING:
                self._enter(REFUSING)
                self.give_up()
            return
        log = logger.info if state in (SYNCHRONOUS, OFF) else logger.warning
        log('%s -> %s: %d of %d secondaries confirm commits, %d transactions are not acknowledged',
            self.state, state, len(self._confirmed()), self.settings.count, len(self._pending))
        was_starting = self.state == STARTING
        self.state, self._since = state, monotonic()
        self._limit = self.settings.timeout if limit is None else limit
        self._asks_in_vain = False
        self._is_exposed = self._recorded(state) == ALONE
        if state == SYNCHRONOUS:
            self._is_told = False
        if was_starting:
            self._settle()
        self._changed()

    def _recorded(self, state):
        """Return the state for the record: alone until followers have what was acknowledged alone."""
        return ALONE if self._is_exposed and state not in (SYNCHRONOUS, OFF) else state

    def _settle(self):
        settling, self._settling = self._settling, []
        for call in settling:
            answer(call)


def _reached_by(count, confirmed):
    """Return the id that so many have confirmed; None if there are fewer."""
    found = sorted(confirmed.values(), reverse=True)
    return found[count - 1] if len(found) >= count else None


def _nothing(name, tid):
    pass
