"""Lets the scheduler's operation manager meet conflicts. Arguments: their number for each operation."""
import json
import logging
import sys
import time

from ZODB.POSException import ConflictError

from refusing import RefusingStorage

from indico.core.db import DBMgr
from indico.modules.scheduler.base import OperationManager


class Scheduler(object):
    _logger = logging.getLogger('scheduler')

    def __init__(self, number):
        self._dbi = DBMgr.getInstance()
        self.calls = 0
        self.number = number

    @OperationManager
    def operate(self):
        self.calls += 1
        self._dbi.getDBConnection().root()['operated'] = self.number
        return 'done'


def outcome(number, conflicts):
    scheduler = Scheduler(number)
    scheduler._dbi.startRequest()
    del pauses[:]
    RefusingStorage.refusals = conflicts
    try:
        result = scheduler.operate()
    except ConflictError:
        result = 'ConflictError'
    RefusingStorage.refusals = 0
    scheduler._dbi.sync()
    saved = scheduler._dbi.getDBConnection().root().get('operated') == number
    scheduler._dbi.endRequest(False)
    return {'result': result, 'calls': scheduler.calls, 'pauses': list(pauses), 'saved': saved}


pauses = []
time.sleep = pauses.append
print json.dumps([outcome(number, int(conflicts)) for number, conflicts in enumerate(sys.argv[1:])])
