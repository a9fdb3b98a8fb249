"""Lets Indico's own scheduler test enqueue a task while the first commit meets a conflict."""
import json
import sys
import types

from ZODB.POSException import ConflictError

from refusing import RefusingStorage

# imported by Indico's test package, used for coverage and browser tests only
for name in ('figleaf', 'figleaf.annotate_html', 'selenium'):
    sys.modules[name] = types.ModuleType(name)
sys.modules['figleaf'].annotate_html = sys.modules['figleaf.annotate_html']
sys.modules['selenium'].webdriver = None

from indico.core.db import DBMgr
from indico.modules.scheduler import SchedulerModule
from indico.tests.python.unit.indico_tests.modules_tests.scheduler_tests import server_test
from indico.util.date_time import nowutc

dbi = DBMgr.getInstance()
dbi.startRequest()
SchedulerModule.getDBInstance()
dbi.endRequest(True)

RefusingStorage.refusals = 1
try:
    server_test.Worker(0, server_test.TestTask, nowutc()).run()
    error = None
except ConflictError:
    error = 'ConflictError'
    dbi.endRequest(False)
dbi.startRequest()
print json.dumps({'error': error, 'spooled': SchedulerModule.getDBInstance().getStatus()['spooled']})
