"""Run a module as a child process that exits when its parent exits.

usage: python -m indico_zodbrepl.dataplane.programs.child MODULE [ARGUMENT ...]

The parent keeps the other end of standard input open.  The kernel closes it when the parent
exits, in whatever way; then this process exits at once.
"""
from __future__ import absolute_import

import os
import runpy
import signal
import sys
import threading


def exit_with_parent():
    """Start a thread that exits this process when standard input ends."""
    def wait():
        while os.read(0, 1):
            pass
        os._exit(1)

    waiter = threading.Thread(target=wait, name='exit with parent')
    waiter.daemon = True
    waiter.start()


def main():
    """Run the module that the command line names."""
    exit_with_parent()
    # A job in the background of a shell inherits an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)


if __name__ == '__main__':
    main()
