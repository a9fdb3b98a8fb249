"""A conference that was lost in a failover, made by real Indico, comes back."""
import json
import os
import shutil

import pytest

from indico_site import IndicoSite
from indico_zodbrepl.dataplane.recover import program
from indico_zodbrepl.dataplane.datafs.export import export
from ZODB.FileStorage import FileStorage

STORAGE = '<filestorage>\n  path %s\n</filestorage>\n'
LISTED = '/indico/export/categ/%s.json?from=2012-01-01&to=2013-01-01'


class Failover(object):
    """A site, and what its old primary did after the last common transaction.

    Args:
        site: an `IndicoSite` on a data file.
        path: that file.
    """

    def __init__(self, site, path):
        self.site = site
        self.path = path
        self.lost = path + '.lost'
        self.conf = str(site.folder.join('zodb.conf'))
        self.tail = str(site.folder.join('tail'))

    def lose(self, *arguments):
        """What make_conference.py does is lost; returns the path of a conference that it made."""
        storage = FileStorage(self.path, read_only=True)
        common = storage.lastTransaction()
        storage.close()
        shutil.copy(self.path, self.lost)
        self.site.write_storage(STORAGE % self.lost)
        made = self.make(*arguments)
        self.site.write_storage(STORAGE % self.path)
        export(self.lost, common, self.tail)
        return made

    def make(self, *arguments):
        status, output, error = self.site.python(
            os.path.join(os.path.dirname(__file__), 'make_conference.py'), *arguments)
        assert 0 == status, error
        return json.loads(output) if output else None


@pytest.fixture
def failover(processes, tmpdir, htdocs, filled):
    """Of a site with three events in category 1."""
    path = str(tmpdir.join('Data.fs'))
    shutil.copy(filled[0], path)
    return Failover(IndicoSite(processes, tmpdir.join('site'), htdocs, STORAGE % path), path)


def recovered(failover, capsys, *more):
    status = program.main(['apply', failover.tail, failover.conf, 'all', '--user', 'olga']
                          + list(more))
    return status, json.loads(capsys.readouterr().out)


class LostUploads(object):
    """A site with events and uploaded files as blobs, and an old primary that had one more.

    Args:
        folder: py.path.local.
        filled: the path of a Data.fs with events.
    """

    def __init__(self, folder, htdocs, filled, kept_as='blobs'):
        self.now, self.lost = folder.mkdir('now'), folder.join('lost')
        self.tail = str(folder.join('tail'))
        shutil.copy(filled, str(self.now.join('Data.fs')))
        self.site = IndicoSite(None, folder.join('site'), htdocs, '', files=kept_as)
        self.conf = str(self.site.folder.join('zodb.conf'))
        self.use(self.now)
        self.files('make')
        shutil.copytree(str(self.now), str(self.lost))

    def use(self, folder):
        self.site.write_storage('<filestorage>\n  path %s\n  blob-dir %s\n</filestorage>\n' % (
            folder.join('Data.fs'), folder.join('blobs')))

    def files(self, *command):
        status, output, error = self.site.python(
            os.path.join(os.path.dirname(__file__), 'upload_files.py'), *command)
        assert 0 == status, error
        return json.loads(output) if output else None

    def lose(self, event, name, conference=None):
        """An upload to an event, which may be a new one with this title, is lost."""
        path = str(self.lost.join('Data.fs'))
        storage = FileStorage(path, read_only=True)
        common = storage.lastTransaction()
        storage.close()
        self.use(self.lost)
        if conference is not None:
            self.make(conference)
        self.files('add', event, name)
        self.use(self.now)
        export(path, common, self.tail)

    def make(self, title):
        status, output, error = self.site.python(
            os.path.join(os.path.dirname(__file__), 'make_conference.py'), '1', title)
        assert 0 == status, error
        return json.loads(output)


@pytest.fixture
def uploads(tmpdir, htdocs, filled):
    return LostUploads(tmpdir, htdocs, filled[0])


@pytest.mark.parametrize('kept_as', ['blobs', 'archive'])
def test_a_lost_conference_comes_back_under_another_number_with_its_files(
        tmpdir, htdocs, filled, capsys, kept_as):
    uploads = LostUploads(tmpdir, htdocs, filled[0], kept_as)
    uploads.lose('3', 'lost.pdf', conference='Lost and Found')
    assert '/event/3' == uploads.make('Made since')
    before = uploads.files('show')
    _, said = recovered(uploads, capsys)
    oid, = [each['oid'] for transaction in said['transactions'] for each in transaction['objects']
            if each['what'].startswith('Conference 3') and each['relation'] == 'new']
    status, output, error = uploads.site.python(
        '-m', 'indico_zodbrepl.dataplane.recover.event', uploads.tail, oid, '--user', 'olga')

    assert 0 == status, error
    told = json.loads(output)
    assert ('4', 1, 0) == (told['event'], told['files'], told['files_missing'])
    assert dict(before, **{'lost.pdf': 'content of lost.pdf'}) == uploads.files('show')


def test_a_lost_conference_comes_back_without_a_file_that_could_not_be_exported(uploads, capsys):
    uploads.lose('3', 'lost.pdf', conference='Lost and Found')
    for path in uploads.lost.dirpath('tail', 'blobs').visit('*.blob'):
        path.remove()
    uploads.make('Made since')
    _, said = recovered(uploads, capsys)
    oid, = [each['oid'] for transaction in said['transactions'] for each in transaction['objects']
            if each['what'].startswith('Conference 3') and each['relation'] == 'new']
    status, output, error = uploads.site.python(
        '-m', 'indico_zodbrepl.dataplane.recover.event', uploads.tail, oid, '--user', 'olga')

    assert 0 == status, error
    told = json.loads(output)
    assert ('4', 0, 1) == (told['event'], told['files'], told['files_missing'])


def test_a_lost_upload_is_found_again_beside_those_made_since(uploads, capsys):
    uploads.lose('0', 'lost.pdf')
    before = uploads.files('show')
    uploads.files('add', '1', 'since.pdf')
    status, said = recovered(uploads, capsys)

    assert (0, ['applies']) == (status, [each['outcome'] for each in said['transactions']])
    assert dict(before, **{name: 'content of %s' % name for name in ('lost.pdf', 'since.pdf')}) == (
        uploads.files('show'))


def test_a_lost_upload_to_materials_that_others_changed_is_refused_with_its_file(uploads, capsys):
    """Both sides gave the new material the same id."""
    uploads.lose('0', 'lost.pdf')
    uploads.files('add', '0', 'since.pdf')
    status, said = recovered(uploads, capsys)
    files = {each['file_name']: each['file'] for each in said['transactions'][0]['objects']
             if each['file']}
    (name, path), = files.items()

    assert program.NOTHING == status
    assert name.endswith('/lost.pdf')
    with open(path, 'rb') as content:
        assert 'content of lost.pdf' == content.read()
    assert 'since.pdf' in uploads.files('show')


def test_a_lost_conference_is_recovered_shown_and_listed_in_its_category(failover, capsys):
    lost = failover.lose('1', 'Lost and Found')
    failover.make('--describe', '0', 'changed after the failover')

    status, said = recovered(failover, capsys)
    assert (0, ['applies']) == (status, [each['outcome'] for each in said['transactions']])
    assert 'Conference 3 "Lost and Found"' in [
        each['what'] for each in said['transactions'][0]['objects']]

    site = failover.site
    site.start()
    assert 'Lost and Found' in site.wait_for_page('/indico' + lost + '/').text
    assert 'changed after the failover' in site.get('/indico/event/0/').text
    assert 'A Talk' in site.get('/indico%s/contributions' % lost).text
    listed = site.get(LISTED % '1').json()['results']
    assert {'Big Conference', 'Small Meeting', 'One Lecture', 'Lost and Found'} == {
        each['title'] for each in listed}


def test_a_lost_conference_comes_back_under_another_number_when_its_own_is_taken(
        failover, capsys):
    """Both sides gave the same number and changed the same lists, so all of it conflicts."""
    assert '/event/3' == failover.lose('1', 'Lost and Found')
    assert '/event/3' == failover.make('1', 'Made since')
    status, said = recovered(failover, capsys)
    assert (program.NOTHING, 0) == (status, said['objects_written'])
    conflicts = {each['what'] for each in said['transactions'][0]['objects']
                 if each['outcome'] == 'conflicts'}
    assert {'BTrees.OOBTree.OOBTree', 'MaKaC.common.Counter.Counter'} < conflicts

    oid, = [each['oid'] for each in said['transactions'][0]['objects']
            if each['what'].startswith('Conference ')]
    site = failover.site
    command = ('-m', 'indico_zodbrepl.dataplane.recover.event', failover.tail, oid,
               '--user', 'olga')
    status, output, error = site.python(*(command + ('--dry-run',)))
    assert (0, None) == (status, json.loads(output)['event']), error
    status, output, error = site.python(*command)
    assert 0 == status, error
    assert ('4', 'Physics') == (json.loads(output)['event'], json.loads(output)['category'])
    assert program.NOTHING == site.python(*command)[0]

    site.start()
    assert 'Lost and Found' in site.wait_for_page('/indico/event/4/').text
    assert 'A Talk' in site.get('/indico/event/4/contributions').text
    assert 'Made since' in site.get('/indico/event/3/').text
    listed = site.get(LISTED % '1').json()['results']
    assert {('3', 'Made since'), ('4', 'Lost and Found')} < {
        (each['id'], each['title']) for each in listed}
