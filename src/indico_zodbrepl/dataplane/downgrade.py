"""The former name of the program `indico_zodbrepl.dataplane.programs.downgrade`, kept for one release."""
from __future__ import absolute_import

import runpy

if __name__ == '__main__':
    runpy.run_module('indico_zodbrepl.dataplane.programs.downgrade', run_name='__main__', alter_sys=True)
