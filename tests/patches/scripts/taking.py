"""Takes turns while another process has the turn; prints what came of it."""
import json
import os
import signal
import subprocess
import sys
import time

from indico.core.config import Config
from indico.core.db import turns

HOLD = ('import fcntl, sys, time; lock = open(sys.argv[1], "a"); fcntl.flock(lock, fcntl.LOCK_EX); '
        'print "has it"; sys.stdout.flush(); time.sleep(600)')


def seconds_of(function):
    began = time.time()
    function()
    return time.time() - began


path = os.path.join(Config.getInstance().getXMLCacheDir(), 'turn.lock')
turns.LET_PASS = 0.3
found = {'alone': turns.take(0), 'again': turns.take(0)}
turns.end()
holder = subprocess.Popen([sys.executable, '-c', HOLD, path], stdout=subprocess.PIPE)
try:
    holder.stdout.readline()
    found['while another has it'] = turns.take(0.1)
    found['let pass for'] = seconds_of(turns.letPass)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    found['after its death'] = turns.take(60)
    # what is forked has the lock open, too
    child = os.fork()
    if not child:
        time.sleep(600)
    turns.end()
    found['while a fork lives'] = turns.take(1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    turns.end()
finally:
    if holder.poll() is None:
        holder.kill()
os.unlink(path)
os.mkdir(path)
found['without a file'] = turns.take(1)
turns.letPass()
print json.dumps(found)
