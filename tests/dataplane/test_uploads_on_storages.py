"""Uploaded files on storages that Indico opens itself: their folder of blobs is no cache."""
import os

import pytest

from indico_site import IndicoSite
from uploading import User

FILESTORAGE = '''\
  <filestorage>
    path %(folder)s/Data.fs
    blob-dir %(folder)s/blobs
  </filestorage>
'''
SQLITE = '''\
  <relstorage>
    blob-dir %(folder)s/blobs
    shared-blob-dir true
    <sqlite3>
      data-dir %(folder)s
    </sqlite3>
  </relstorage>
'''
SECTION = '%%import indico_zodbrepl.dataplane\n%%import relstorage\n<indicostorage>\n%s</indicostorage>\n'


@pytest.mark.parametrize('storage', [FILESTORAGE, SQLITE], ids=['filestorage', 'sqlite'])
def test_a_file_is_stored_sent_and_replaced(processes, tmpdir, htdocs, storage):
    folder = tmpdir.ensure('data', dir=True)
    site = IndicoSite(
        processes, tmpdir.join('site'), htdocs, SECTION % (storage % {'folder': folder}), files='blobs')
    status, _, error = site.first_run()
    assert 0 == status, error
    site.make_events()
    site.start()
    user = User(site)
    content = os.urandom(300000)
    path = user.add_material('/event/0', 'a talk.pdf', content)
    for _ in range(2):
        answer = user.get(path)
        assert (200, content) == (answer.status_code, answer.content)
    for text in ('first', 'second'):
        user.call('minutes.edit', confId='1', value=text)
        assert text == user.call('minutes.edit', confId='1')
    assert [] == os.listdir(str(folder.join('blobs', 'tmp')))
    report = site.health()[1]
    assert (0, 0) == (report['files_in_archive'], report['files_missing'])
