"""Gets pages of Indico without a web server; prints JSON.

Arguments: paths below /indico. Prints {"pages": [[path, status, text], ...],
"wrote": whether the storage has another last transaction than before}.
"""
import json
import sys

from indico.core.db import DBMgr
from indico_zodbrepl.dataplane.indico.app import application
from werkzeug.test import Client
from werkzeug.wrappers import BaseResponse

database = DBMgr.getInstance()._db
before = database.storage.lastTransaction()
client = Client(application, BaseResponse)
pages = []
for path in sys.argv[1:]:
    response = client.get('/indico' + path)
    pages.append((path, response.status_code, response.data.decode('utf-8')))
print json.dumps({'pages': pages, 'wrote': database.storage.lastTransaction() != before})
database.close()
