"""Lets writes meet a conflict; in the second try of each another request begins in a thread of its own.

Arguments: API key, then SURFACE:SECOND for each write, where SECOND is a path for a second request that
reads, or `post` for one that might write.
Prints what happened in which order, and whether somebody has the turn when all is over.
"""
import fcntl
import json
import os
import sys
import threading

from indico.core.config import Config
from indico.core.db import DBMgr
try:
    from indico.core.db import turns
except ImportError:
    turns = None

from refusing import RefusingStorage
import client
import surfaces

PATIENCE = 120  # seconds; the machine may be busy
commit = DBMgr.commit
if turns:
    turns.LET_PASS = PATIENCE
    let_pass = turns.letPass


def meet(surface, path):
    """Let one write of `surface` meet a conflict and a second request."""
    order = []
    waiting, done = threading.Event(), threading.Event()

    def request():
        if path == 'post':
            second_browser.login()
        else:
            second_browser.get(path)
        order.append('second done')
        done.set()
        waiting.set()

    def let_pass_noted():
        if threading.current_thread() is second:
            order.append('second waits')
            waiting.set()
        let_pass()

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

    second = threading.Thread(target=request)
    if turns:
        turns.letPass = let_pass_noted
    DBMgr.commit = commit_noted
    surface.tries = 0
    RefusingStorage.refusals = 1
    status = surface.write(first_browser)['status']
    DBMgr.commit = commit
    second.join(PATIENCE)
    return {'status': status, 'tries': surface.tries, 'order': order, 'taken': somebody_has_the_turn()}


def somebody_has_the_turn():
    path = os.path.join(Config.getInstance().getXMLCacheDir(), 'turn.lock')
    if os.path.exists(path):
        with open(path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except IOError:
                return True
    return False


made = surfaces.make(sys.argv[1])
client.Mails()
first_browser, second_browser = client.Client(), client.Client()
first_browser.login()
second_browser.login()
answers = {}
for case in sys.argv[2:]:
    name, path = case.split(':')
    answers[case] = meet(made[name], path)
print json.dumps(answers)
