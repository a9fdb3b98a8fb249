"""Lets a scheduler's worker process open the database of its parent. Argument: port for a server."""
import json
import multiprocessing
import os
import sys

import server
from indico.core.db import DBMgr
from indico.modules.scheduler.slave import ProcessWorker

zeo = server.Server(int(sys.argv[1]))
zeo.start()
parent = DBMgr.getInstance()
answers = multiprocessing.Queue()


class Worker(ProcessWorker):
    """A worker that only opens the database and says what it sees."""

    def __init__(self):
        multiprocessing.Process.__init__(self)

    def run(self):
        try:
            self._prepareDB()
            self._dbi.startRequest()
            answers.put({'categories': sorted(self._dbi.getDBConnection().root()['categories'].keys()),
                         'own': self._dbi is not parent and self._dbi._pid == os.getpid()})
        except Exception as error:
            answers.put({'error': '%s: %s' % (error.__class__.__name__, error)})


worker = Worker()
worker.start()
answer = answers.get(timeout=60)
worker.join(60)
print json.dumps(answer)
