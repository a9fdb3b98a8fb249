"""Tells what the storage was told last before each pause of writes that meet three conflicts each.

Arguments: API key, surfaces. `released`: the storage may forget as of when the
connection reads; `polled`: it has to keep that.
"""
import json
import sys
import time

from ZODB.mvccadapter import MVCCAdapterInstance

from refusing import RefusingStorage
import client
import surfaces

told = []
MVCCAdapterInstance.afterCompletion = lambda self: told.append('released')
poll = MVCCAdapterInstance.poll_invalidations
MVCCAdapterInstance.poll_invalidations = lambda self: told.append('polled') or poll(self)

made = surfaces.make(sys.argv[1])
client.Mails()
browser = client.Client()
browser.login()
sleep = time.sleep
answers = {}
for name in sys.argv[2:]:
    before_pauses = []
    time.sleep = lambda seconds: before_pauses.append(told[-1])
    RefusingStorage.refusals = 3
    status = made[name].write(browser)['status']
    time.sleep = sleep
    answers[name] = {'status': status, 'before_pauses': before_pauses}
print json.dumps(answers)
