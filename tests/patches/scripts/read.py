"""Reads the given addresses as somebody who is not logged in."""
import json
import sys

import client

browser = client.Client()
answers = []
for path in sys.argv[1:]:
    answer = browser.get(path)
    answer['length'] = len(answer.pop('body', ''))
    answers.append(dict(answer, open_connections=client.open_connections()))
print json.dumps(answers)
