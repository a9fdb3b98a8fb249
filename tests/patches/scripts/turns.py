"""Lets a write meet a conflict; in its second try another request begins in a thread of its own.

Arguments: surface of the write, API key, path for a second request that reads, or `post` for one that
might write.
Prints what happened in which order, and whether somebody has the turn when all is over.
"""
import fcntl
import json
import os
import sys
import threading
import time

from indico.core.config import Config
from indico.core.db import DBMgr

from refusing import RefusingStorage
import client
import surfaces

PATIENCE = 120  # seconds; the machine may be busy
order = []
waiting, done = threading.Event(), threading.Event()


def request():
    if sys.argv[3] == 'post':
        second_browser.login()
    else:
        second_browser.get(sys.argv[3])
    order.append('second done')
    done.set()
    waiting.set()


second = threading.Thread(target=request)
try:
    from indico.core.db import turns
except ImportError:
    turns = None
else:
    turns.LET_PASS = PATIENCE
    let_pass = turns.letPass

    def told():
        if threading.current_thread() is second:
            order.append('second waits')
            waiting.set()
        let_pass()
    turns.letPass = told

surface = surfaces.make(*sys.argv[1:3])
client.Mails()
first_browser, second_browser = client.Client(), client.Client()
first_browser.login()
second_browser.login()
commit = DBMgr.commit


def commit_noted(self, *args):
    if threading.current_thread() is second:
        return commit(self, *args)
    if surface.tries == 2 and not second.ident:
        second.start()
        waiting.wait(PATIENCE)
        # it either waits for its turn or has been answered
        done.wait(0.5)
    commit(self, *args)
    order.append('first saved')


DBMgr.commit = commit_noted
surface.tries = 0
RefusingStorage.refusals = 1
status = surface.write(first_browser)['status']
DBMgr.commit = commit
second.join(PATIENCE)

taken = False
path = os.path.join(Config.getInstance().getXMLCacheDir(), 'turn.lock')
if os.path.exists(path):
    with open(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except IOError:
            taken = True
print json.dumps({'status': status, 'tries': surface.tries, 'order': order, 'taken': taken})
