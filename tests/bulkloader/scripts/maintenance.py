"""Runs scripts of bin/maintenance of the Indico that is installed, given by their names."""
import os
import runpy
import sys

import indico
from indico.core.db import DBMgr

for name in sys.argv[1:]:
    runpy.run_path(os.path.join(os.path.dirname(indico.__file__), os.pardir, 'bin',
                                'maintenance', name), run_name='__main__')
DBMgr.getInstance()._db.close()
