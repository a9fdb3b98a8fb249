"""Runs the bulk loader and prints as JSON, on the last line, what that took.

Arguments: those of bulkload. Prints {"seconds": without the start of the interpreter and the import
of Indico, "cpu_seconds": likewise, "peak_kib": the most memory the process had}.
"""
import json
import resource
import sys
import time

import bulkloader.loading  # noqa: F401  what Indico's import takes is the same for all ways
from bulkloader.__main__ import main


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_kib():
    with open('/proc/self/status') as status:
        line, = [each for each in status if each.startswith('VmHWM:')]
    return int(line.split()[1])


began, cpu_began = time.time(), cpu_seconds()
code = main(sys.argv[1:])
print json.dumps({'seconds': time.time() - began, 'cpu_seconds': cpu_seconds() - cpu_began,
                  'peak_kib': peak_kib()})
sys.exit(code)
