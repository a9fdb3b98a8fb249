"""A browser for the real WSGI application, in the same process, and looks behind the scenes."""
import json
import os
import re
import time

from werkzeug.exceptions import NotFound
from werkzeug.test import Client as WerkzeugClient
from werkzeug.wrappers import Response
from werkzeug.wsgi import DispatcherMiddleware

from indico.core.db import DBMgr
from indico.web.flask.app import make_app
from MaKaC.common.mail import GenericMailer

PASSWORD = 'correct horse'


class Client(object):
    """Keeps cookies; every answer is a dict that can be printed as JSON."""

    def __init__(self):
        application = DispatcherMiddleware(NotFound(), {'/indico': make_app()})
        self._client = WerkzeugClient(application, Response)
        self._token = None

    def request(self, path, **options):
        started = time.time()
        try:
            response = self._client.open('/indico' + path, base_url='http://localhost', **options)
        except Exception as error:  # what a WSGI server would get
            return {'status': 'raised', 'error': error.__class__.__name__, 'seconds': time.time() - started}
        return {'status': response.status_code, 'retry_after': response.headers.get('Retry-After'),
                'type': response.mimetype, 'body': response.data.decode('utf-8', 'replace'),
                'seconds': time.time() - started, 'cookie': 'Set-Cookie' in response.headers}

    def get(self, path):
        return self.request(path)

    def post(self, path, **form):
        return self.request(path, method='POST', data=form)

    def login(self):
        """Log in, or take over the session that the environment names."""
        if 'SESSION' in os.environ:
            self._client.set_cookie('localhost', 'indico_session', os.environ['SESSION'])
        else:
            answer = self.post('/user/login', login='ada', password=PASSWORD)
            assert answer['status'] == 303, answer
        self._token = re.search('content="([^"]*)" name="csrf-token"', self.get('/')['body']).group(1)

    def rpc(self, method, **params):
        body = json.dumps({'version': '1.1', 'id': 7, 'method': method, 'params': params})
        return self.request('/services/json-rpc', method='POST', data=body, content_type='application/json',
                            headers={'X-CSRF-Token': self._token or ''})

    def create_category(self, name):
        """Creates a subcategory of the root through the web form."""
        return self.post('/category/0/create/subcategory/save', name=name, description='',
                         defaultTimezone='UTC', allowedUsers='[]', categProtection='public')

    def set_title(self, event, title):
        """Renames an event by JSON-RPC."""
        return self.rpc('event.main.changeTitle', conference=event, value=title)


class Mails(list):
    """Counts mails instead of sending them."""

    def __init__(self):
        super(Mails, self).__init__()
        GenericMailer._send = staticmethod(self.append)


def open_connections():
    """Returns how many database connections are in use."""
    return len([each for each in database().connectionDebugInfo() if each['opened']])


def database():
    return DBMgr.getInstance()._db


def last_tid():
    return database().storage.lastTransaction().encode('hex')
