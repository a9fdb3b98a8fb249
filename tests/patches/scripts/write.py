"""Makes writes while the storage refuses commits.

Arguments: API key, then for each write SURFACE:ERROR:PASSES:REFUSALS: how many commits get through,
and how many are refused after that with which error (LostWhileSaving: they are saved all the same).
"""
import json
import sys

from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, POSKeyError

from refusing import LOST, RefusingStorage
import client
import surfaces

ERRORS = {'ConflictError': ConflictError(), 'ClientDisconnected': ClientDisconnected(),
          'LostWhileSaving': LOST, 'POSKeyError': POSKeyError('\0' * 8),
          'ValueError': ValueError('A different object already has the same oid')}

made = surfaces.make(sys.argv[1])
mails = client.Mails()
browser = client.Client()
browser.login()

answers = []
for case in sys.argv[2:]:
    name, error, passes, refusals = case.split(':')
    surface = made[name]
    before = surface.read()
    surface.tries = 0
    del mails[:]
    RefusingStorage.error = ERRORS[error]
    RefusingStorage.passes, RefusingStorage.refusals = int(passes), int(refusals)
    with open('indico.log') as log:
        log.seek(0, 2)
        answer = surface.write(browser)
        logged = log.read()
    RefusingStorage.passes = RefusingStorage.refusals = 0
    answers.append(dict(answer, tries=surface.tries, mails=len(mails), logged=logged,
                        open_connections=client.open_connections(), saved=surface.read() != before))
print json.dumps(answers)
