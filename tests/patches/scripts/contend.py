"""One of several users who create events in one category at the same time, each in a process of its own.

Arguments: category, name of this user, folder, seconds, and how many
seconds a user thinks between two events, on average. A file NAME.ready in the folder says that this
user has logged in; all begin when the file `go` is there. Prints for each request its HTTP status, how
many seconds it took and how many tries it needed, and after how many seconds from the beginning it ended.
"""
import json
import os
import random
import sys
import time

import client

from indico.core.db.retries import Retries

category, name, folder = sys.argv[1:4]
seconds, thinking = [float(arg) for arg in sys.argv[4:]]
FORM = {'event_type': 'conference', 'categId': category, 'ok': 'OK', 'description': '', 'keywords': '',
        'Timezone': 'UTC', 'sYear': '2015', 'sMonth': '1', 'sDay': '2', 'sHour': '9', 'sMinute': '0',
        'eYear': '2015', 'eMonth': '1', 'eDay': '2', 'eHour': '18', 'eMinute': '0', 'locationName': '',
        'roomName': '', 'defaultStyle': 'static', 'eventProtection': 'inherit', 'chairperson': '[]',
        'allowedUsers': '[]'}

failed = []
decide = Retries.pause
Retries.pause = lambda self, error: failed.append(error.__class__.__name__) or decide(self, error)
client.Mails()
browser = client.Client()
browser.login()
# what the first request of a process builds is not to be counted
browser.get('/category/%s/' % category)
open(os.path.join(folder, name + '.ready'), 'w').close()
while not os.path.exists(os.path.join(folder, 'go')):
    time.sleep(0.01)

begin = time.time()
requests = []
while time.time() < begin + seconds:
    del failed[:]
    answer = browser.post('/event/create/save', title='%s %d' % (name, len(requests)), **FORM)
    requests.append({'status': answer['status'], 'seconds': answer['seconds'],
                     'tries': len(failed) + (answer['status'] != 503), 'ended': time.time() - begin})
    if thinking:
        time.sleep(random.expovariate(1 / thinking))
client.database().close()
print json.dumps(requests)
sys.stdout.flush()
os._exit(0)  # a NEO client has more to say when it ends, and the answer is the last line
