"""Uploads files to the event, and prints what happened to them.

Usage: uploads.py ACTION; prints what the function of that name returns.
"""
import json
import os
import sys
from StringIO import StringIO

from indico.core.config import Config
from indico.core.db import DBMgr

import client
from MaKaC.conference import ConferenceHolder

CONTENT = 'GIF89a, more or less' * 1000


def configure(**settings):
    Config.getInstance()._configVars.update(settings)


def upload():
    """Upload a logo; return a browser."""
    browser = client.Client()
    browser.login()
    answer = browser.post('/event/0/manage/layout/style/logo/upload', file=(StringIO(CONTENT), 'logo.gif'))
    assert 303 == answer['status'], answer
    return browser


def in_archive():
    """Return the paths of logos below ArchiveDir."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(os.getcwd())
            for name in names if name == 'logo.gif']


def store():
    """Return where a new file is, and whether it is sent."""
    configure(FileRepository='blobs')
    browser = upload()
    return {'in archive': len(in_archive()), 'sent': browser.get('/event/0/logo')['body'] == CONTENT}


def lose():
    """Return the status and Retry-After of a request for a file that is missing, and can't be recorded."""
    browser = upload()
    os.mkdir('unavailable-files')
    path, = in_archive()
    os.remove(path)
    answer = browser.get('/event/0/logo')
    return [answer['status'], answer['retry_after']]


def path():
    """Return the name of the path of a file in the database, and whether it exists after the transaction."""
    configure(FileRepository='blobs')
    upload()
    DBMgr.getInstance().startRequest()
    path = ConferenceHolder().getById('0').getLogo().getFilePath()
    found = os.path.isfile(path)
    DBMgr.getInstance().endRequest(False)
    return [os.path.basename(path), found, os.path.isfile(path)]


def conflict():
    """Return the length of a template for papers that is stored after a conflict, and what is left of it."""
    browser = client.Client()
    browser.login()
    configure(ForceConflicts=1)
    before = set(os.listdir('.'))
    answer = browser.post('/event/0/manage/paper-reviewing/setup/templates/upload', name='A', description='',
                          format='PDF', file=(StringIO(CONTENT), 'paper.pdf'))
    assert 200 == answer['status'], answer
    DBMgr.getInstance().startRequest()
    template, = ConferenceHolder().getById('0').getConfPaperReview().getTemplates().values()
    size = os.path.getsize(template.getFile().getFilePath())
    DBMgr.getInstance().endRequest(False)
    return [size == len(CONTENT), len([name for name in set(os.listdir('.')) - before if name.endswith('.tmp')])]


print(json.dumps(globals()[sys.argv[1]]()))
client.database().close()
