"""Kills the server under a running Indico, asks all kinds of things, starts the server again.

Arguments: port for the server, API key, names of what is asked while it is away.
"""
import json
import sys
import time

import client
import server
import surfaces

port, key = int(sys.argv[1]), sys.argv[2]
zeo = server.Server(port)
zeo.start()
mails = client.Mails()
writes = surfaces.make(key)
browser = client.Client()
browser.login()
assert browser.get('/category/0/')['status'] == 200

READS = {
    'home': lambda: browser.get('/'),
    'missing page': lambda: browser.get('/missing'),
    'missing export': lambda: browser.get('/export/nonsense/0.json'),
    'public export': lambda: browser.get('/export/event/0.json?nc=yes'),
    'ajax': lambda: browser.request('/category/0/', content_type='application/json'),
}

before = dict((name, writes[name].read()) for name in writes)
zeo.kill()
# nothing is to be answered from memory
client.database().cacheMinimize()
client.database().storage._cache.clear()
away = {}
for name in sys.argv[3:]:
    away[name] = READS[name]() if name in READS else writes[name].write(browser)
mails_away = len(mails)
open_connections = client.open_connections()

zeo.start()
deadline = time.time() + 60
while True:
    back = browser.get('/category/0/')
    if back['status'] == 200 or time.time() > deadline:
        break
saved = [name for name in writes if writes[name].read() != before[name]]
before = writes['page'].read()
written = writes['page'].write(browser)
print json.dumps({'away': away, 'saved': saved, 'mails': mails_away, 'open_connections': open_connections,
                  'back': back['status'], 'written': written['status'],
                  'written_and_read': writes['page'].read() != before,
                  'open_connections_at_last': client.open_connections()})
