"""An Indico with its folders, served by gunicorn, for tests."""
import json
import os
import shutil
import string
import subprocess
import sys

import indico
import indico_zodbrepl
import lxml.html
import requests

from forks import forker
from processes import FORKED_INDICO, PATIENCE, free_ports, wait_for

HTDOCS = os.path.join(os.path.dirname(indico.__file__), 'htdocs')
TEMPLATES = os.path.join(
    os.path.dirname(indico_zodbrepl.__file__), 'cluster', 'templates')
ADMIN = {'login': 'admin', 'password': u's\xe9same', 'first_name': u'Ad\xe8le',
         'last_name': 'Min', 'email': 'admin@example.org'}
# Of a site that existed before; see make_existing_site.py.
OWNER = {'login': 'owner', 'password': 'old secret', 'first_name': 'Ow',
         'last_name': 'Ner', 'email': 'owner@example.org'}
FOLDERS = ('etc/one', 'log/one', 'indico/tmp/one', 'indico/cache', 'indico/archive')

FILESTORAGE = '''\
%%import indico_zodbrepl.dataplane
<indicostorage>
  <filestorage>
    path %s
    blob-dir %s
    read-only %s
  </filestorage>
</indicostorage>
'''


def filestorage(site_folder, read_only=False):
    """Returns the zodb.conf of a site with the Data.fs in its folder."""
    return FILESTORAGE % (
        site_folder.join('Data.fs'), site_folder.join('blobs'), 'true' if read_only else 'false')


def overlay_htdocs(folder):
    """Makes an HtdocsDir in which style sheets can be built, and returns its path.

    Everything but the folder `static` is a link to the installed one.  Its folder `templates` is
    for the compiled templates of all sites.
    """
    folder.ensure('templates', dir=True)
    for name in os.listdir(HTDOCS):
        if name != 'static':
            folder.join(name).mksymlinkto(os.path.join(HTDOCS, name))
    folder.ensure('static', dir=True).join('fonts').mksymlinkto(
        os.path.join(HTDOCS, 'static', 'fonts'))
    return str(folder)


def site_with_file(processes, folder, htdocs, data=None):
    """Returns an `IndicoSite` with a Data.fs of its own.

    Args:
        data: the file to copy; without it the database is empty.

    Its attribute `data` is the path of the file.
    """
    site = IndicoSite(processes, folder, htdocs, filestorage(folder))
    site.data = str(folder.join('Data.fs'))
    if data is not None:
        shutil.copy(data, site.data)
    return site


def read_template(name):
    """Returns the text of a template of the generated files."""
    with open(os.path.join(TEMPLATES, name)) as template:
        return template.read()


class IndicoSite(object):
    """One Indico instance, configured as a cluster's would be.

    Args:
        processes: the fixture that starts and ends it.
        folder: py.path.local for its folders.
        htdocs: what `overlay_htdocs` returns.
        storage: text of its zodb.conf.
        site_conf: Python that stands for the conf of an existing site.
        files: where new uploaded files go.
    """

    def __init__(self, processes, folder, htdocs, storage, site_conf='', files='archive'):
        self._processes = processes
        self.folder = folder.ensure(dir=True)
        self.port, = free_ports(1)
        self.address = 'http://127.0.0.1:%d' % self.port
        for each in FOLDERS:
            self.folder.ensure(each, dir=True)
        self.folder.join('indico', 'tmp', 'one', 'mako_modules').mksymlinkto(
            os.path.join(htdocs, 'templates'))
        self.write_storage(storage)
        values = dict(
            zodb_conf=self.folder.join('zodb.conf'), url=self.address + '/indico',
            var=self.folder, instance='one', htdocs=htdocs,
            archive=self.folder.join('indico', 'archive'), files=files,
            assets=self.folder.ensure('assets', dir=True), mail=read_template('no-mail.conf'), own='',
            site=site_conf, log=self.folder.join('log', 'one'), bytes=10 ** 7,
            backups=5)
        for name in ('indico.conf', 'logging.conf'):
            text = string.Template(read_template(name)).substitute(values)
            self.folder.join('etc', 'one', name).write(text)
        self.environment = {
            'INDICO_CONF': str(self.folder.join('etc', 'one', 'indico.conf')),
            'ZODBREPL_INSTANCE': 'one'}
        self.admin_file = self.folder.join('admin.json')
        self.admin_file.write(json.dumps(ADMIN))
        self.admin_file.chmod(0o600)
        self.process = None

    def write_storage(self, storage):
        self.folder.join('zodb.conf').write(storage)

    def first_run(self):
        """Runs firstrun; returns (exit status, standard output, standard error)."""
        return self.python(
            '-m', 'indico_zodbrepl.dataplane.indico.firstrun',
            '--admin-file', str(self.admin_file))

    def make_events(self):
        """Runs make_events.py; returns paths below /indico."""
        status, output, error = self.python(
            os.path.join(os.path.dirname(__file__), 'make_events.py'))
        assert 0 == status, error
        return json.loads(output)

    def python(self, *args):
        """Runs Python, with Indico imported; returns (exit status, standard output, standard error)."""
        env = dict(os.environ, **self.environment)
        return forker('indico', env).run(args, env)

    def popen(self, *args, **options):
        """Starts Python with pipes for its output; the caller ends it."""
        return subprocess.Popen(
            (sys.executable,) + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, **self.environment), **options)

    def start(self, python=FORKED_INDICO):
        """Starts gunicorn as a cluster does and waits for its port.

        Args:
            python: as for `Process`; 'python' imports Indico as the first request waits for it.
        """
        self.process = self._processes.start(
            [python, '-m', 'gunicorn.app.wsgiapp',
             '--bind', '127.0.0.1:%d' % self.port, '--workers', '1',
             '--worker-class', 'gthread', '--threads', '4',
             'indico_zodbrepl.dataplane.indico.app:application'],
            name='indico', port=self.port, env=self.environment)

    def get(self, path, session=requests, **options):
        return session.get(self.address + path, timeout=PATIENCE, **options)

    def health(self):
        answer = self.get('/zodbrepl/health')
        return answer.status_code, answer.json()

    def wait_for_page(self, path='/indico/'):
        """Asks for a page until it is 200 and returns it."""
        def page():
            answer = self.get(path)
            assert answer.status_code in (200, 503), answer.text
            return answer if answer.status_code == 200 else None
        return wait_for(page, path)

    def included(self, path):
        """Returns the URLs of the style sheets, scripts and images of a page."""
        page = lxml.html.fromstring(self.get(path).content)
        page.make_links_absolute(self.address + path)
        return set(page.xpath(
            '//link[@rel="stylesheet"]/@href | //script/@src | //img/@src'))

    def csrf_token(self, session):
        page = lxml.html.fromstring(self.get('/indico/', session).content)
        return page.xpath('//meta[@name="csrf-token"]/@content')[0]

    def log_in(self, login=ADMIN['login'], password=ADMIN['password']):
        """Returns a requests session of a user, by default the administrator."""
        session = requests.Session()
        answer = session.post(
            self.address + '/indico/user/login', allow_redirects=False,
            data={'login': login, 'password': password.encode('utf-8')},
            timeout=PATIENCE)
        assert 303 == answer.status_code, answer.text
        return session
