"""Makes writes that find the storage unable to load an event at first, and take it for missing.

Arguments: API key, then for each write SURFACE:FAILURES: how many loads fail. The page goes on
without the event, as many do; JSON-RPC says that there is none.
"""
import json
import sys

from ZEO.Exceptions import ClientDisconnected

from indico.core.db import DBMgr
from MaKaC.conference import ConferenceHolder
from MaKaC.webinterface.rh.categoryMod import RHCategoryPerformCreation

import client
import surfaces
from refusing import RefusingStorage

load = RefusingStorage.loadBefore
get = ConferenceHolder.getById.__func__
create = RHCategoryPerformCreation._process.__func__
failures = 0
looking = False


def fail_to_load(self, *args):
    global failures
    if looking and failures:
        failures -= 1
        raise ClientDisconnected()
    return load(self, *args)


def look(self, event):
    global looking
    DBMgr.getInstance().getDBConnection().cacheMinimize()
    looking = True
    try:
        return get(self, event)
    finally:
        looking = False


def create_without_event(self):
    try:
        ConferenceHolder().getById('0')
    except Exception:
        pass
    return create(self)


RefusingStorage.loadBefore = fail_to_load
ConferenceHolder.getById = look
RHCategoryPerformCreation._process = create_without_event

made = surfaces.make(sys.argv[1])
browser = client.Client()
browser.login()
answers = []
for case in sys.argv[2:]:
    name, number = case.split(':')
    surface = made[name]
    before = surface.read()
    surface.tries = 0
    failures = int(number)
    answer = surface.write(browser)
    left, failures = failures, 0
    answers.append(dict(answer, tries=surface.tries, failed=int(number) - left,
                        saved=surface.read() != before))
print json.dumps(answers)
