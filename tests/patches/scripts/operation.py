"""Lets the scheduler's operation manager meet so many conflicts. Argument: their number."""
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

    def __init__(self):
        self._dbi = DBMgr.getInstance()
        self.calls = 0

    @OperationManager
    def operate(self):
        self.calls += 1
        self._dbi.getDBConnection().root()['operated'] = True
        return 'done'


scheduler = Scheduler()
scheduler._dbi.startRequest()
pauses = []
time.sleep = pauses.append
RefusingStorage.refusals = int(sys.argv[1])
try:
    result = scheduler.operate()
except ConflictError:
    result = 'ConflictError'
RefusingStorage.refusals = 0
scheduler._dbi.sync()
print json.dumps({'result': result, 'calls': scheduler.calls, 'pauses': pauses,
                  'saved': 'operated' in scheduler._dbi.getDBConnection().root()})
