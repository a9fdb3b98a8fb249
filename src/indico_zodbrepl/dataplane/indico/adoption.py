"""Prepare the objects of an existing Indico for a read-only server; imports Indico."""
from __future__ import absolute_import

import collections
import time

import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
from indico.util.contextManager import ContextManager
from MaKaC.conference import CategoryManager, ConferenceHolder
from MaKaC.user import AvatarHolder
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, POSKeyError

from indico_zodbrepl.dataplane.indico import prewarm
from indico_zodbrepl.dataplane.indico.set_up import set_up_globals
from indico_zodbrepl.dataplane.programs.clock import monotonic

PATIENCE = 60.0  # seconds for which a transaction is retried
PAUSE = 0.5  # seconds
REPORT = 2.0  # seconds


class NoIndico(Exception):
    """The database holds no Indico."""


def _conference(conference):
    """Create what is missing in a conference; return the number of its contributions."""
    contributions = conference.getContributionList()
    for contribution in contributions:
        prewarm.prewarm_contribution(contribution)
        for part in contribution.getSubContributionList():
            prewarm.prewarm_contribution(part)
    prewarm.prewarm_conference(conference)
    return len(contributions)


KINDS = (
    ('users', AvatarHolder, prewarm.prewarm_user),
    ('categories', CategoryManager, prewarm.prewarm_category),
    ('conferences', ConferenceHolder, _conference))


class Adoption(object):
    """One run over a database; one thread.

    Args:
        manager: Indico's `DBMgr`.
        batch: objects per transaction.
        say: called with each line of progress.

    Attributes:
        counts: number of checked objects of each kind.
        damaged: objects that could not be checked, as 'kind id: error'.
    """

    def __init__(self, manager, batch, say):
        self.counts = collections.OrderedDict()
        self.damaged = []
        self._manager = manager
        self._batch = batch
        self._say = say

    def run(self):
        """Prepare all objects; retry each transaction for up to a minute.

        Raises NoIndico; ClientDisconnected, ConflictError or ReadOnlyError after the last retry.
        """
        self._transaction(self._globals)
        for kind, holder, prepare in KINDS:
            self.counts[kind] = 0
            ids = self._transaction(lambda: list(holder()._getIdx().keys()))
            self._all_of(kind, holder, prepare, ids)

    def _globals(self):
        if 'rootCategory' not in self._manager.getDBConnection().root():
            raise NoIndico()
        set_up_globals()

    def _all_of(self, kind, holder, prepare, ids):
        begun = said = monotonic()
        for start in range(0, len(ids), self._batch):
            self._some_of(kind, holder, prepare, ids[start:start + self._batch])
            now = monotonic()
            if now - said >= REPORT:
                said = now
                done = start + self._batch
                self._say('%s: %d of %d, %.0f a second' % (
                    kind, done, len(ids), done / (now - begun)))
        self._say('%s: %d in %.1f s' % (kind, len(ids), monotonic() - begun))

    def _some_of(self, kind, holder, prepare, ids):
        """Process a batch in one transaction; one each if an object is damaged."""
        def work():
            index = holder()._getIdx()
            return sum(prepare(index[each]) or 0
                       for each in ids if each in index)
        try:
            contributions = self._transaction(work)
        except (POSKeyError, AttributeError) as error:
            if len(ids) > 1:
                for each in ids:
                    self._some_of(kind, holder, prepare, [each])
            else:
                self.damaged.append('%s %s: %s: %s' % (
                    kind, ids[0], type(error).__name__, error))
                self._say('damaged: ' + self.damaged[-1])
            return
        self.counts[kind] += len(ids)
        if kind == 'conferences':
            self.counts['contributions'] = (
                self.counts.get('contributions', 0) + contributions)

    def _transaction(self, work):
        """Commit what `work` does and return its value; retry for up to a minute."""
        deadline = monotonic() + PATIENCE
        while True:
            try:
                return self._attempt(work)
            except (ClientDisconnected, ConflictError):
                if monotonic() >= deadline:
                    raise
                time.sleep(PAUSE)

    def _attempt(self, work):
        self._manager.startRequest()
        done = False
        try:
            ContextManager.set('autoOps', [])
            value = work()
            self._manager.commit()
            done = True
            return value
        finally:
            ContextManager.destroy()
            self._manager.endRequest(done)
