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
