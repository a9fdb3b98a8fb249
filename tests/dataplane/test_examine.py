"""An existing Indico is examined, and an older release's copy is migrated by Indico's own program."""
import cPickle
import cStringIO
import gzip
import json
import os
import shutil
import socket

import pytest

from indico_zodbrepl.dataplane.indico import stand_ins
from indico_site import OWNER, site_with_file

HERE = os.path.dirname(os.path.abspath(__file__))
COUNTS = {'users': 2, 'categories': 2, 'conferences': 3, 'contributions': 3}
SITE_CONF = '''\
import os
ArchiveDir = os.path.join(%r, 'archive')
BaseURL = 'http://events.example.org'
'''


@pytest.fixture
def site(processes, tmpdir, htdocs):
    return site_with_file(processes, tmpdir.ensure('var', dir=True), htdocs)


@pytest.fixture(scope='module')
def existing(tmpdir_factory, htdocs):
    """Path of the Data.fs of an Indico 1.2.2, for copies."""
    site = site_with_file(None, tmpdir_factory.mktemp('existing'), htdocs)
    status, _, error = site.python(os.path.join(HERE, 'make_existing_site.py'))
    assert 0 == status, error
    return site.data


def unpack(release, path):
    """Write the Data.fs that an Indico of that release wrote; see old_indico."""
    with gzip.open(os.path.join(HERE, 'old_indico', 'indico-%s.fs.gz' % release)) as packed:
        with open(path, 'wb') as unpacked:
            unpacked.write(packed.read())


def examine(site, *options):
    status, output, error = site.python(
        '-m', 'indico_zodbrepl.dataplane.indico.examine', site.data, *options)
    return status, json.loads(output) if output else None, error


def examined(site, *options):
    status, found, error = examine(site, *options)
    assert 0 == status, error
    return found


def fingerprints(folder):
    return dict((each.basename, each.computehash()) for each in folder.visit() if each.isfile())


def test_a_database_of_1_2_is_recognised(site, existing):
    shutil.copy(existing, site.data)
    found = examined(site)
    assert ('1.2', COUNTS) == (found['release'], found['counts'])
    assert ([], 0, None) == (found['damaged'], found['unfinished'], found['scheduler'])


@pytest.mark.parametrize('release', ['1.0', '1.1'])
def test_a_database_of_an_older_release_is_recognised(site, release):
    unpack(release, site.data)
    found = examined(site)
    assert (release, COUNTS) == (found['release'], found['counts'])


@pytest.mark.parametrize('release', ['1.0', '1.1'])
def test_the_migration_makes_a_1_2_of_an_older_release(site, release):
    """Local users keep their passwords, and pages answer."""
    unpack(release, site.data)
    status, output, error = site.python('-m', 'indico_zodbrepl.dataplane.indico.migrate', release)
    assert 0 == status, error
    done = json.loads(output)
    assert 'localIdentityMigration' in done['tasks']
    assert (release == '1.0') == ('convertLinkedTo' in done['tasks'])
    found = examined(site)
    assert ('1.2', COUNTS) == (found['release'], found['counts'])
    site.start()
    assert 'Physics' in site.wait_for_page('/indico/').text
    session = site.log_in(OWNER['login'], OWNER['password'])
    for page in ('/indico/event/0/', '/indico/event/1/', '/indico/event/2/', '/indico/category/1/'):
        assert 200 == site.get(page, session=session).status_code


def test_an_examination_changes_nothing(site, existing, tmpdir):
    folder = tmpdir.ensure('old', dir=True)
    shutil.copy(existing, str(folder.join('Data.fs')))
    site.data = str(folder.join('Data.fs'))
    before = fingerprints(folder)
    examined(site)
    assert before == fingerprints(folder)


def test_files_that_are_not_in_the_archive_are_named(site, tmpdir):
    unpack('1.1', site.data)
    conf = tmpdir.join('site.conf')
    conf.write(SITE_CONF % str(tmpdir))
    archive = tmpdir.ensure('archive', dir=True)
    found = examined(site, '--site-conf', str(conf))
    assert (3, 3, str(archive)) == (found['files'], found['missing'], found['archive'])
    for path in found['named'][1:]:
        archive.join(path).write('a file', ensure=True)
    again = examined(site, '--site-conf', str(conf))
    assert (1, found['named'][:1]) == (again['missing'], again['named'])
    assert ['ArchiveDir', 'BaseURL'] == again['settings']


UPLOAD = """
import os, sys, ZODB
from ZODB.blob import Blob
from ZODB.FileStorage import FileStorage
from indico_zodbrepl.dataplane.indico import stand_ins
path = sys.argv[1]
database = ZODB.DB(FileStorage(path, blob_dir=os.path.join(os.path.dirname(path), 'blobs')))
database.classFactory = stand_ins.class_of
with database.transaction() as connection:
    files = connection.root()['local_repositories']['main']._MaterialLocalRepository__files
    first = list(files)[0]
    files[first] = (files[first], Blob('content'), 7, 64 * '0', 1.0)
database.close()
"""


def test_uploaded_files_in_the_database_are_counted_and_none_may_be_missing(site, tmpdir):
    unpack('1.1', site.data)
    status, _, error = site.python('-c', UPLOAD, site.data)
    assert 0 == status, error
    found = examined(site, '--archive', str(tmpdir))
    assert (1, 0) == (found['blobs'], found['missing_blobs'])
    assert (2, 2) == (found['files'], found['missing'])
    blobs = os.path.join(os.path.dirname(site.data), 'blobs')
    os.rename(blobs, blobs + '.elsewhere')
    assert 1 == examined(site, '--archive', str(tmpdir))['missing_blobs']


def test_a_damaged_file_is_refused(site, existing):
    with open(existing, 'rb') as whole:
        content = bytearray(whole.read())
    middle = len(content) // 2
    content[middle:middle + 5000] = b'\0' * 5000
    with open(site.data, 'wb') as damaged:
        damaged.write(content)
    status, _, error = examine(site)
    assert 4 == status, error


def test_a_file_that_a_server_has_open_is_refused(site, existing):
    shutil.copy(existing, site.data)
    site.start()
    site.wait_for_page('/indico/')
    status, _, error = examine(site)
    assert 5 == status, error
    assert 'a server has %s open' % site.data in error


def test_another_database_is_refused(site):
    status, _, error = site.python(
        '-c', 'import ZODB, transaction\ndb = ZODB.DB(%r)\ndb.open().root()["a"] = 1\n'
        'transaction.commit()\ndb.close()' % site.data)
    assert 0 == status, error
    status, _, error = examine(site)
    assert (7, True) == (status, 'holds no Indico' in error)


def test_a_site_conf_that_fails_is_named(site, existing, tmpdir):
    shutil.copy(existing, site.data)
    conf = tmpdir.join('site.conf')
    conf.write('ArchiveDir = nothing\n')
    status, _, error = examine(site, '--site-conf', str(conf))
    assert (2, True) == (status, "site.conf: NameError: name 'nothing'" in error)


RUNNING = '''
from indico.core.db import DBMgr
from indico.modules import ModuleHolder
from MaKaC.common.info import HelperMaKaCInfo
manager = DBMgr.getInstance()
manager.startRequest()
ModuleHolder().getById('scheduler').setSchedulerRunningStatus(True)
info = HelperMaKaCInfo.getMaKaCInfoInstance()
info.setRoomBookingModuleActive(True)
info.setRoomBookingDBConnectionParams(('rooms.example.org', 9676))
manager.endRequest(True)
'''


def test_a_running_scheduler_and_another_database_of_rooms_are_reported(site, existing):
    shutil.copy(existing, site.data)
    status, _, error = site.python('-c', RUNNING)
    assert 0 == status, error
    found = examined(site)
    assert found['scheduler'].endswith(' of host ' + socket.getfqdn())
    assert (True, 'rooms.example.org:9676') == (
        found['rooms']['active'], found['rooms']['separate'])


class Plain(object):
    """An object of an old Indico that is no record of its own."""


@pytest.mark.parametrize('protocol', [1, 2])
def test_objects_are_read_without_their_class_whatever_the_pickle(protocol):
    plain = Plain()
    plain.title = 'a title'
    unpickler = cPickle.Unpickler(cStringIO.StringIO(cPickle.dumps(plain, protocol)))
    unpickler.find_global = lambda module, name: stand_ins.class_of(None, module, name)
    read = unpickler.load()
    assert ('a title', False) == (read.title, isinstance(read, Plain))
