"""Blobs without a file, and files without a transaction, are found and told apart."""
import os
import shutil

import pytest

from blob_sites import BlobSite
from indico_zodbrepl.dataplane.datafs import blob_audit
from indico_zodbrepl.dataplane.datafs.blob_audit import audit


@pytest.fixture
def site(tmpdir):
    made = BlobSite(tmpdir.mkdir('node'))
    made.upload(old=b'old', changed=b'before')
    made.upload(changed=b'after', empty=b'')
    made.commit(u'text')
    return made


def test_a_whole_folder_has_no_findings(site):
    assert {'blobs': 4, 'bytes': 14, 'missing': 0, 'first_missing': None, 'unreferenced': 0,
            'unreferenced_bytes': 0, 'first_unreferenced': None} == audit(site.path)


@pytest.mark.parametrize('newest', [None, 16])
def test_a_blob_without_its_file_is_named(site, newest):
    path = site.blob('changed')
    os.unlink(path)
    found = audit(site.path, newest)
    oid, tid = site.revision('changed')

    assert (3, 1) == (found['blobs'], found['missing'])
    assert {'oid': oid, 'tid': tid, 'path': os.path.relpath(path, site.folder)} == (
        found['first_missing'])


def test_an_older_revision_without_its_file_is_none(site):
    """Its file was packed away on the node from which it came."""
    oid, tid = site.revision('changed')
    folder = os.path.dirname(site.blob('changed'))
    older, = [name for name in os.listdir(folder) if tid not in name]
    os.unlink(os.path.join(folder, older))

    assert (3, 0) == (audit(site.path)['blobs'], audit(site.path)['missing'])


def test_a_file_without_a_transaction_is_named(site):
    left = site.blob('old').replace(site.revision('old')[1], '0300000000000000')
    shutil.copy(site.blob('old'), left)
    found = audit(site.path)

    assert (1, 3, os.path.relpath(left, site.folder)) == (
        found['unreferenced'], found['unreferenced_bytes'], found['first_unreferenced'])
    assert 0 == audit(site.path, newest=16)['unreferenced']


def test_the_file_of_a_commit_under_way_is_none(site):
    shutil.copy(site.blob('old'), site.blob('old').replace(
        site.revision('old')[1], '7f00000000000000'))

    assert 0 == audit(site.path)['unreferenced']


@pytest.mark.parametrize('newest', [None, 2, 16])
def test_a_folder_that_is_gone_is_noticed_wherever_the_blobs_are(site, monkeypatch, newest):
    monkeypatch.setattr(blob_audit, 'READ', 100)
    assert 0 == audit(site.path, newest)['missing']
    shutil.rmtree(site.folder)

    assert audit(site.path, newest)['missing'] > 1
    os.mkdir(site.folder)  # where a disk was mounted
    assert audit(site.path, newest)['missing'] > 1


def test_only_the_newest_blobs_are_looked_for(site):
    os.unlink(site.blob('old'))

    assert 0 == audit(site.path, newest=2)['missing']
    assert 1 == audit(site.path, newest=3)['missing']


def test_a_database_without_blobs_has_no_findings(tmpdir):
    made = BlobSite(tmpdir.mkdir('node'))
    made.commit(u'text')
    shutil.rmtree(made.folder)

    assert (0, 0) == (audit(made.path)['blobs'], audit(made.path, newest=16)['missing'])


@pytest.mark.parametrize('packed', [False, True])
def test_files_without_a_transaction_are_put_aside(site, packed):
    """A pack links every file to the same folder."""
    left = site.blob('old').replace(site.revision('old')[1], '0300000000000000')
    shutil.copy(site.blob('old'), left)
    name = os.path.relpath(left, site.folder)
    if packed:
        site.pack(site.tids()[-1])
    before = audit(site.path)

    assert before == audit(site.path, put_aside=True)
    assert dict(before, unreferenced=0, unreferenced_bytes=0, first_unreferenced=None) == (
        audit(site.path))
    assert os.path.exists(os.path.join(site.folder + '.old', name))
