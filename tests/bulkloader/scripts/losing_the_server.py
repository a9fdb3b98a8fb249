"""Writes after the server of its storage was killed and the client has noticed it.

Argument: the PID of the server.  Prints the exit code that a command of the loader would have.
"""
import os
import signal
import sys
import time

import transaction
from bulkloader.database import connected, errors_for_operators, opened
from bulkloader.errors import LoaderError
from indico_zodbrepl.dataplane.client.status import is_connected

try:
    with errors_for_operators(), opened() as manager, connected(manager) as root:
        os.kill(int(sys.argv[1]), signal.SIGKILL)
        while is_connected(manager._db):
            time.sleep(0.05)
        # ZEO sets this in notify_disconnected, if it has not begun to connect again by then.
        manager._db.storage.base._is_read_only = True
        root['a name'] = 'a value'
        transaction.commit()
except LoaderError as error:
    print(error.exit_code)
