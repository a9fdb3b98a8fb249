"""Gets pages of Indico as its administrator, without a web server; prints JSON.

Arguments: login, password, and a file with paths below /indico as a JSON list. Prints {path:
[status, text]}.
"""
import json
import sys

from indico.core.db import DBMgr
from indico_zodbrepl.dataplane.indico.app import application
from werkzeug.test import Client
from werkzeug.wrappers import BaseResponse

client = Client(application, BaseResponse)
answer = client.post('/indico/user/login', data={'login': sys.argv[1], 'password': sys.argv[2]})
assert 303 == answer.status_code, answer.data
found = {}
with open(sys.argv[3]) as paths:
    for path in json.load(paths):
        answer = client.get('/indico' + path)
        found[path] = answer.status_code, answer.data.decode('utf-8')
print json.dumps(found)
DBMgr.getInstance()._db.close()
