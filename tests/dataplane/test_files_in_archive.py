"""Files in the archive, alone and beside newer ones in the database."""
import os

import pytest

from processes import Processes, wait_for
from uploading import Hosts, said


@pytest.fixture(scope='module')
def hosts(tmpdir_factory, htdocs, filled):
    folder = tmpdir_factory.mktemp('hosts')
    processes = Processes(folder)
    try:
        yield Hosts(processes, folder, htdocs, filled[0], files='archive')
    finally:
        processes.close()


def test_old_files_stay_where_they_are_when_new_ones_go_into_the_database(hosts):
    user = hosts.user()
    old, new = os.urandom(5000), os.urandom(5000)
    path = user.add_material('/event/1', 'old.pdf', old)
    user.call('minutes.edit', confId='1', value='old minutes')
    assert 503 == user.at(hosts.two).get(path).status_code
    report = hosts.two.health()[1]
    assert (1, None) == (report['files_missing'], report['files_in_archive'])
    assert 'a file of event 1' == report['file_missing']
    assert set() == hosts.blobs()
    hosts.choose('blobs')
    user = hosts.user()
    assert old == user.get(path).content
    assert 'old minutes' == user.call('minutes.edit', confId='1')
    assert new == user.at(hosts.two).get(user.add_material('/event/1', 'new.pdf', new)).content
    wait_for(lambda: hosts.one.health()[1]['files_in_archive'] == 2, 'a count of the archive')
    copied = user.post('/event/1/manage/tools/clone', cloneType='once', stdyo='2030', stdmo='1', stddo='2',
                       cloneMaterials='1', confirm='1')
    assert 303 == copied.status_code, said(copied)
    user.call('minutes.edit', confId='1', value='new minutes')
    assert 'new minutes' == user.at(hosts.two).call('minutes.edit', confId='1')
    kept = hosts.tree().values()
    assert ['old.pdf'] == [os.path.basename(each) for each in kept if isinstance(each, str)]
    stored = [each[1] for each in kept if not isinstance(each, str)]
    assert sorted([old, new, new, 'old minutes', 'new minutes']) == sorted(stored)


def test_with_the_archive_again_files_in_the_database_are_readable(hosts):
    content = os.urandom(5000)
    path = hosts.user().add_material('/event/2', 'kept.pdf', content)
    hosts.choose('archive')
    user = hosts.user()
    assert content == user.at(hosts.two).get(path).content
    newer = user.add_material('/event/2', 'newer.pdf', content * 2)
    assert content * 2 == user.get(newer).content
    assert content * 2 not in [each[1] for each in hosts.tree().values() if not isinstance(each, str)]
