"""Runs tasks on the database of an indico.conf, each in a fresh process; Python 2.7.

usage: INDICO_CONF=... stable.py

Indico is imported once; a task runs in a fork of that, which opens the database itself.  Reads
requests as lines of JSON: {"task": a function of `tasks`, "arguments": {...}, "result": a path}.
Answers each with a line {"pid": ...}, and with {"pid": ..., "status": ...} when that process has
ended; its result is then in the file, as JSON, or its error in a file beside that, `.error`.  Ends,
with all it started, when its input ends.
"""
import json
import os
import random
import select
import signal
import sys
import traceback

import tasks

ROUND = 0.02  # seconds


def tell(**values):
    os.write(1, json.dumps(values) + '\n')


def perform(request):
    """In the child: does a task and ends the process, with 0 when it has left a result."""
    os.dup2(2, 1)
    random.seed()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = 1
    try:
        result = getattr(tasks, request['task'])(**request['arguments'])
        partial = request['result'] + '.partial'
        with open(partial, 'w') as opened:
            json.dump(result, opened)
        os.rename(partial, request['result'])
        status = 0
    except BaseException as error:
        traceback.print_exc()
        with open(request['result'] + '.error', 'w') as opened:
            opened.write('%s: %s' % (type(error).__name__, error))
    finally:
        sys.stderr.flush()
        os._exit(status)


def main():
    running, rest = set(), ''
    try:
        while True:
            if select.select([0], [], [], ROUND)[0]:
                read = os.read(0, 65536)
                if not read:
                    return
                lines = (rest + read).split('\n')
                rest = lines.pop()
                for line in lines:
                    pid = os.fork()
                    if not pid:
                        perform(json.loads(line))
                    running.add(pid)
                    tell(pid=pid)
            for pid in list(running):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    running.remove(pid)
                    tell(pid=pid, status=status)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)


if __name__ == '__main__':
    main()
