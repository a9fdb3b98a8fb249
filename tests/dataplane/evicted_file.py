"""Reads a file of an event after the storage has removed what it had cached.

    evicted_file.py CACHE EVENT MATERIAL NUMBER

Prints its name, content and whether its path still exists after the transaction, as JSON.
Run in a process of its own: Indico is configured once a process.
"""
import base64
import json
import os
import sys

from indico.core.db import DBMgr
from MaKaC.conference import ConferenceHolder

cache, event, material, number = sys.argv[1:]
DBMgr.getInstance().startRequest()
found = ConferenceHolder().getById(event).getMaterialById(material).getResourceById(number)
path = found.getFilePath()
for folder, _, names in os.walk(cache):
    for name in names:
        if name.endswith('.blob'):
            os.remove(os.path.join(folder, name))
with open(path, 'rb') as content:
    answer = [os.path.basename(path), base64.b64encode(content.read())]
DBMgr.getInstance().endRequest(False)
print(json.dumps(answer + [os.path.exists(os.path.dirname(path))]))
