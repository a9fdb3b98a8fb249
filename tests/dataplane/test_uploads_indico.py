"""Files that Indico's own calls uploaded are moved, also those in its trash can."""
import json
import os

import pytest

from indico_site import site_with_file

HERE = os.path.dirname(os.path.abspath(__file__))
ARCHIVED = "FileRepository = 'archive'\n"


@pytest.fixture
def site(tmpdir, htdocs):
    """An Indico with events whose files are in its archive; one file is deleted."""
    site = site_with_file(None, tmpdir.join('site'), htdocs)
    assert 0 == site.first_run()[0]
    site.make_events()
    conf = tmpdir.join('site', 'etc', 'one', 'indico.conf')
    conf.write(conf.read() + ARCHIVED)
    files(site, 'make')
    files(site, 'delete')
    return site


def files(site, command):
    status, output, error = site.python(os.path.join(HERE, 'upload_files.py'), command)
    assert 0 == status, error
    return json.loads(output) if output else None


def run(site, command, *options):
    status, output, error = site.python(
        '-m', 'indico_zodbrepl.dataplane.uploads', command, str(site.folder.join('zodb.conf')),
        *options)
    assert 0 == status, error
    return json.loads(output)


def test_files_are_moved_into_the_database_and_back(site):
    before = files(site, 'show')
    assert 8 == len(before)
    archive = site.folder.join('indico', 'archive')
    assert 9 == run(site, 'import')['imported']['files']
    archive.remove()
    assert before == files(site, 'show')
    assert [] == run(site, 'verify')['findings']
    said = run(site, 'export')
    assert (9, str(archive)) == (said['exported']['files'], said['archive'])
    assert before == files(site, 'show')
    assert {'files': 0, 'bytes': 0} == run(site, 'survey')['stored']


@pytest.mark.parametrize('commands', [['import'], ['import', 'export']])
def test_a_file_that_was_deleted_before_can_be_restored_afterwards(site, commands):
    before = files(site, 'show')
    for command in commands:
        run(site, command)
    if commands == ['import']:
        site.folder.join('indico', 'archive').remove()
    files(site, 'restore')
    after = files(site, 'show')
    assert len(before) + 1 == len(after)
    assert all(content == 'content of %s' % name for name, content in after.items())
