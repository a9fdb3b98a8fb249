"""Tells what the storage was told last before each pause of a write that meets conflicts.

Arguments: surface, API key, number of conflicts. `released`: the storage may forget as of when the
connection reads; `polled`: it has to keep that.
"""
import json
import sys
import time

from ZODB.mvccadapter import MVCCAdapterInstance

from refusing import RefusingStorage
import client
import surfaces

told, before_pauses = [], []
MVCCAdapterInstance.afterCompletion = lambda self: told.append('released')
poll = MVCCAdapterInstance.poll_invalidations
MVCCAdapterInstance.poll_invalidations = lambda self: told.append('polled') or poll(self)

surface = surfaces.make(*sys.argv[1:3])
client.Mails()
browser = client.Client()
browser.login()
sleep = time.sleep
time.sleep = lambda seconds: before_pauses.append(told[-1])
RefusingStorage.refusals = int(sys.argv[3])
answer = surface.write(browser)
time.sleep = sleep
print json.dumps({'status': answer['status'], 'before_pauses': before_pauses})
