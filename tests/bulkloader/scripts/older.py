"""Makes the run in the storage look as if generator 1 had made it.

Argument: 'unfinished' to make it look as if its last conference were missing, too.
"""
import sys

import transaction
from bulkloader.record import KEY
from indico.core.db import DBMgr

dbi = DBMgr.getInstance()
dbi.startRequest()
run = dbi.getDBConnection().root()[KEY][-1]
run['generator'] = 1
run['parameters'] = dict((name, run['parameters'][name]) for name in (
    'conferences', 'contributions', 'categories', 'rooms', 'seed'))
if sys.argv[1:] == ['unfinished']:
    run['done'] -= 1
    del run['conferences'][run['done']]
transaction.commit()
dbi.endRequest(False)
dbi._db.close()
