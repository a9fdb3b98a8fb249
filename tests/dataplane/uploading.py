"""Two Indico instances on one storage server, and the forms by which users upload files.

The instances share no folder, as if they were on two hosts.
"""
import contextlib
import json
import os
import re
import shutil

import transaction
import ZODB.config
from ZODB.DB import DB

from indico_site import IndicoSite
from nodes import Node
from processes import PATIENCE, listens, wait_for

CLIENT = '''\
%%import indico_zodbrepl.dataplane
%%import ZEO
<indicostorage>
  <clientstorage>
    server 127.0.0.1:%d
    storage 1
    server-sync true
    blob-dir %s
    blob-cache-size %d
    wait-timeout 30
  </clientstorage>
</indicostorage>
'''
CACHE_BYTES = 10 ** 9
BOUNDARY = 'the-boundary-of-a-form'
MATERIAL = {'uploadType': 'file', 'materialId': 'slides', 'statusSelection': '1', 'visibility': '0',
            'password': '', 'userList': '[]', 'description': '', 'displayName': ''}


class Hosts(object):
    """A storage server and two instances, `one` and `two`.

    Args:
        processes: the fixture that starts and ends them.
        folder: py.path.local.
        data: Data.fs to copy.
        files: where new files go.
        cache_bytes: size of the cache of blobs of each instance.
        first_conf, site_conf: more settings of `one` and of `two`.
    """

    def __init__(self, processes, folder, htdocs, data, files='blobs', cache_bytes=CACHE_BYTES,
                 first_conf='', site_conf=''):
        self.node = Node(processes, folder, 'a')
        shutil.copy(data, self.node.data)
        self.node.start()
        self.one, self.two = [
            IndicoSite(processes, folder.join(name), htdocs, '', conf, files)
            for name, conf in (('one', first_conf), ('two', site_conf))]
        for site in (self.one, self.two):
            site.cache = site.folder.join('indico', 'blobs')
            site.write_storage(CLIENT % (self.node.port, site.cache, cache_bytes))
            site.start()

    def choose(self, files):
        """Restarts the instances; from now on new files go to `blobs` or `archive`."""
        for site in (self.one, self.two):
            site.process.kill()
            wait_for(lambda: not listens(site.port), 'the end of an instance')
            conf = site.folder.join('etc', 'one', 'indico.conf')
            conf.write(re.sub("FileRepository = '.*'", "FileRepository = '%s'" % files, conf.read()))
            site.start()

    def user(self, site=None):
        return User(site or self.one)

    def blobs(self):
        """The paths of the blob files on the server."""
        return set(os.path.join(folder, name) for folder, _, names in os.walk(self.node.blobs)
                   for name in names if name.endswith('.blob'))

    def evict(self):
        """Removes what the instances have cached."""
        for site in (self.one, self.two):
            for path in site.cache.visit('*.blob'):
                path.remove()

    def script(self, name, *arguments):
        """Runs a program beside this module with the Indico of `one`; returns its output."""
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
        status, output, error = self.one.python(path, *arguments)
        assert 0 == status, error
        return output.strip()

    @contextlib.contextmanager
    def database(self):
        """The database, as another client has it open."""
        db = DB(ZODB.config.storageFromURL(str(self.one.folder.join('zodb.conf'))))
        try:
            yield db
        finally:
            db.close()

    def undo(self):
        """Undoes the last transaction."""
        with self.database() as db:
            db.undo(db.undoInfo(0, 1)[0]['id'])
            transaction.commit()

    def tree(self, name='main'):
        """{id: entry} of a file repository, blobs as their content."""
        with self.database() as db:
            repository = db.open().root()['local_repositories'][name]
            files = repository.__getstate__()['_MaterialLocalRepository__files']
            return dict((key, _readable(value)) for key, value in files.items())


def _readable(value):
    if isinstance(value, str):
        return value
    path, blob, size, sha256, created = value
    with blob.open('r') as content:
        return path, content.read(), size, sha256, created


class User(object):
    """The administrator, in a browser.

    Args:
        site: an `IndicoSite`.
        session: of requests; None for a new one.
    """

    def __init__(self, site, session=None):
        site.wait_for_page()
        self._site = site
        self._session = session or site.log_in()
        self._session.headers['X-CSRF-Token'] = site.csrf_token(self._session)

    @property
    def cookie(self):
        return self._session.cookies['indico_session']

    def at(self, site):
        """The same session on another host."""
        return User(site, self._session)

    def get(self, path, **options):
        return self._site.get('/indico' + path, self._session, **options)

    def post(self, path, files=None, headers=None, **fields):
        return self._session.post(
            self._site.address + '/indico' + path, data=fields, files=files, headers=headers,
            allow_redirects=False, timeout=PATIENCE)

    def call(self, method, **params):
        """Calls a method of Indico's JSON-RPC service; returns its result."""
        answer = self._session.post(
            self._site.address + '/indico/services/json-rpc', timeout=PATIENCE,
            headers={'Content-Type': 'application/json'},
            data=json.dumps({'version': '1.1', 'id': 1, 'method': method, 'params': params}))
        assert answer.json().get('error') is None, answer.text
        return answer.json()['result']

    def add_material(self, owner, name, content, form=None, **fields):
        """Uploads a file by a form for material; returns its path, or the answer if it is refused."""
        return _material(self.post(
            form or owner + '/manage/material/add', files={'file': (name, content)},
            **dict(MATERIAL, **fields)))

    def send_material(self, owner, body):
        """As `add_material`, with an open file that `body` returns for the fields and a boundary."""
        headers = {'Content-Type': 'multipart/form-data; boundary=' + BOUNDARY}
        return _material(self._session.post(
            self._site.address + '/indico' + owner + '/manage/material/add', headers=headers,
            data=body(MATERIAL, BOUNDARY), allow_redirects=False, timeout=PATIENCE))


def _material(answer):
    assert 200 == answer.status_code, said(answer)
    told = in_textarea(answer)
    return re.sub('^http.*?/indico', '', told['info'][0]['url']) if told['status'] == 'OK' else told


def in_textarea(answer):
    """The JSON that a form in a frame is answered."""
    found = re.search('<textarea>(.*)</textarea>', answer.text, re.S)
    return json.loads(found.group(1) if found else answer.text)


def links(answer, pattern):
    """The paths below /indico of a page's links that match."""
    found = re.findall('(?:href|src)="(?:http://[^/"]*)?/indico([^"]*)"', answer.text)
    return [each.replace('&amp;', '&') for each in found if re.search(pattern, each)]


def said(answer):
    """What a page says, without its markup."""
    text = re.sub('(?s)<(script|style|head).*?</\\1>|<[^>]*>', ' ', answer.text)
    return answer.status_code, ' '.join(text.split())[:2000]
