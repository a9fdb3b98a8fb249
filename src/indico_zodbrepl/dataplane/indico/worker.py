"""The worker of an Indico instance: gunicorn's threaded worker, which completes its requests.

gunicorn's own waits `--graceful-timeout` seconds for the requests under way.
Then it shuts the interpreter down, while requests continue and fail.  It
leaves idle connections open meanwhile, and reads no further request from them.

Its master ends the workers of an instance that is stopped as a whole after
`--graceful-timeout` seconds; a worker that another one replaces has more time.
"""
from __future__ import absolute_import

import os

from gunicorn.workers.gthread import ThreadWorker

# Seconds for the requests of a worker that is replaced.
DRAIN_LIMIT = float(os.environ.get('ZODBREPL_DRAIN_SECONDS', 30))

CUT = 1  # exit status of a worker whose requests took longer


class DrainingWorker(ThreadWorker):
    """A worker that answers all accepted requests before it exits, within DRAIN_LIMIT seconds."""

    def init_process(self):
        self.cfg.set('graceful_timeout', int(DRAIN_LIMIT))
        ThreadWorker.init_process(self)

    def handle_exit(self, sig, frame):
        # Clients of requests that begin later send their next one to another worker.
        self.cfg.set('keepalive', 0)
        ThreadWorker.handle_exit(self, sig, frame)

    def run(self):
        ThreadWorker.run(self)
        unfinished = [each for each in self.futures if not each.done()]
        if unfinished:
            self.log.error('%d requests took longer than %g s after the end of worker %d: cut',
                           len(unfinished), DRAIN_LIMIT, self.pid)
            os._exit(CUT)

    def murder_keepalived(self):
        """Close idle connections that are too old, and all of them at exit."""
        ThreadWorker.murder_keepalived(self)
        while not self.alive:
            try:
                connection = self._keep.popleft()
            except IndexError:
                break
            self.nr_conns -= 1
            connection.close()
