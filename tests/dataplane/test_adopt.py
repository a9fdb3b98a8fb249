"""Adoption: the database of an existing Indico can be read from a read-only server."""
import json
import os
import shutil

import pytest
import ZODB.config
from ZODB.Connection import TransactionMetaData

from indico_site import OWNER, filestorage, site_with_file
from test_firstrun import ADMIN_PAGES, PAGES

HERE = os.path.dirname(__file__)


@pytest.fixture
def site(processes, tmpdir, htdocs):
    return site_with_file(processes, tmpdir.ensure('var', dir=True), htdocs)


@pytest.fixture(scope='module')
def existing(tmpdir_factory, htdocs):
    """Path of the Data.fs of a site with events, for copies; paths below /indico."""
    site = site_with_file(None, tmpdir_factory.mktemp('existing'), htdocs)
    paths = run_json(site, os.path.join(HERE, 'make_existing_site.py'))
    return site.data, paths


@pytest.fixture
def paths(site, existing):
    """The site has events now; paths below /indico."""
    data, paths = existing
    shutil.copy(data, site.data)
    return paths


@pytest.fixture(scope='module')
def adopted(tmpdir_factory, htdocs, existing):
    """Path of the Data.fs of that site after its adoption, for copies; the answer of that."""
    site = site_with_file(None, tmpdir_factory.mktemp('adopted'), htdocs, existing[0])
    return site.data, run_json(site, '-m', 'indico_zodbrepl.dataplane.indico.adopt')


def run_json(site, *args):
    status, output, error = site.python(*args)
    assert 0 == status, error
    return json.loads(output)


def adopt(site, *args):
    return site.python('-m', 'indico_zodbrepl.dataplane.indico.adopt', *args)


def describe(site):
    return run_json(site, os.path.join(HERE, 'describe_site.py'))


def statuses(site, paths, pages, session=None):
    options = {} if session is None else {'session': session}
    return dict((page, site.get('/indico' + page.format(**paths), **options).status_code)
                for page in pages)


def start_read_only(site):
    site.write_storage(filestorage(site.folder, read_only=True))
    site.start()


def test_an_adopted_sites_pages_are_served_from_a_read_only_storage(site, existing, adopted):
    _, paths = existing
    data, result = adopted
    assert {'users': 2, 'categories': 2, 'conferences': 3, 'contributions': 3,
            'damaged': []} == result
    shutil.copy(data, site.data)
    site.start()
    site.wait_for_page('/indico/')
    session = site.log_in(OWNER['login'], OWNER['password'])
    site.process.terminate()
    start_read_only(site)
    assert 'Physics' in site.wait_for_page('/indico/').text
    assert dict.fromkeys(PAGES, 200) == statuses(site, paths, PAGES)
    assert dict.fromkeys(ADMIN_PAGES, 200) == statuses(site, paths, ADMIN_PAGES, session)


def test_without_adoption_pages_of_a_read_only_storage_fail(site, paths):
    """Which is why adoption is there."""
    start_read_only(site)
    site.wait_for_page('/zodbrepl/health')
    assert any(503 in statuses(site, paths, [page]).values() for page in PAGES)


def test_adoption_changes_no_user_right_or_modification_date(site, paths, adopted):
    before = describe(site)
    shutil.copy(adopted[0], site.data)
    assert before == describe(site)
    assert ['owner@example.org'] == before['admins']


def test_a_second_adoption_writes_nothing(site, adopted):
    shutil.copy(adopted[0], site.data)
    before = site.folder.join('Data.fs').computehash()
    status, _, error = adopt(site, '--batch', '1')
    assert 0 == status, error
    assert before == site.folder.join('Data.fs').computehash()


def test_an_interrupted_adoption_goes_on(site, paths):
    """Batches that are committed stay; the next run does the others."""
    status, _, error = site.python(
        '-c', 'from indico_zodbrepl.dataplane.indico import adopt, prewarm\n'
        'def interrupt(_conference): raise KeyboardInterrupt\n'
        'prewarm.prewarm_conference = interrupt\n'
        'raise SystemExit(adopt.main([]))')
    assert 130 == status, error
    assert 0 == adopt(site)[0]
    start_read_only(site)
    site.wait_for_page('/indico/')
    assert dict.fromkeys(PAGES, 200) == statuses(site, paths, PAGES)


def test_a_damaged_event_is_named_and_the_others_are_adopted(site, paths):
    with site.folder.as_cwd():  # without an indico.conf Indico's log goes there
        lose_contribution_of_event(site, '1')
    status, output, error = adopt(site)
    assert 3 == status, error
    result = json.loads(output)
    assert 2 == result['conferences']
    damaged, = result['damaged']
    assert damaged.startswith('conferences 1: POSKeyError')
    start_read_only(site)
    site.wait_for_page('/indico/')
    assert 200 == site.get('/indico%s/' % paths['conference']).status_code


def lose_contribution_of_event(site, number):
    """Deletes the record of an event's only contribution, as a damaged disk would."""
    storage = ZODB.config.storageFromFile(open(str(site.folder.join('zodb.conf'))))
    database = ZODB.DB(storage)
    connection = database.open()
    lost, = connection.root()['conferences'][number].contributions.values()
    lost._p_activate()
    oid, serial = lost._p_oid, lost._p_serial
    connection.close()
    current = TransactionMetaData()
    storage.tpc_begin(current)
    storage.deleteObject(oid, serial, current)
    storage.tpc_vote(current)
    storage.tpc_finish(current)
    database.close()


def test_an_empty_database_is_refused(site):
    status, output, error = adopt(site)
    assert (4, '') == (status, output)
    assert 'holds no Indico; for a new one: firstrun' in error


def test_a_read_only_storage_is_reported(site, paths):
    site.write_storage(filestorage(site.folder, read_only=True))
    status, output, error = adopt(site)
    assert (1, '') == (status, output)
    assert 'ReadOnlyError' in error


@pytest.mark.parametrize('batch', ['0', '-1', 'many'])
def test_a_wrong_batch_is_refused(site, batch):
    status, output, error = adopt(site, '--batch', batch)
    assert (2, '') == (status, output)
    assert 'usage' in error
