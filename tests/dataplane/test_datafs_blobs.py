"""Comparisons of histories whose blobs' files differ, with the upstream on this host and another."""
import os
import shutil

import pytest

from blob_sites import LARGE, BlobSite
from indico_zodbrepl.dataplane.datafs import blob_comparison
from indico_zodbrepl.dataplane.datafs import compare as module
from indico_zodbrepl.dataplane.datafs.serving import Server
from remote_files import compare, compare_remotely


@pytest.fixture
def upstream(tmpdir):
    site = BlobSite(tmpdir.mkdir('upstream'))
    site.upload(empty=b'', small=b'a talk', large=LARGE)
    site.upload(last=b'the last one')
    return site


@pytest.fixture
def site(upstream, tmpdir):
    return upstream.copy_to(tmpdir.join('site'))


def differing(site, upstream, verified=None):
    found = compare(site.path, upstream.path, verified)
    return [found[key] for key in ('relation', 'blobs_differing', 'blobs_missing_upstream')]


def test_the_same_files_are_equal_and_all_are_compared(site, upstream):
    found = compare(site.path, upstream.path)

    assert ('equal', 4, 0) == (found['relation'], found['blobs'], found['blobs_differing'])
    assert found['differing_blob'] is None


def test_a_file_with_other_content_makes_the_histories_differ(site, upstream):
    with open(site.blob('large'), 'r+b') as blob:
        blob.seek(10 << 20)
        blob.write(b'changed')
    found = compare(site.path, upstream.path)

    assert ('diverged', 1, 0, 0) == (found['relation'], found['blobs_differing'],
                                     found['conflicting'], found['blobs_missing_upstream'])
    oid, tid = site.revision('large')
    assert {'oid': oid, 'tid': tid, 'size': len(LARGE), 'upstream_size': len(LARGE)} == (
        found['differing_blob'])


def test_a_file_of_another_size_makes_the_histories_differ(site, upstream):
    with open(site.blob('small'), 'ab') as blob:
        blob.write(b'more')
    found = compare(site.path, upstream.path)

    assert ('diverged', 1) == (found['relation'], found['blobs_differing'])
    assert (10, 6) == (found['differing_blob']['size'], found['differing_blob']['upstream_size'])


@pytest.mark.parametrize('name', ['small', 'empty'])
def test_a_file_that_only_one_side_lacks_makes_the_histories_differ(site, upstream, name):
    os.unlink(site.blob(name))
    missing_here = compare(site.path, upstream.path)
    missing_there = compare(upstream.path, site.path)

    assert ('diverged', 1, 0) == (missing_here['relation'], missing_here['blobs_differing'],
                                  missing_here['blobs_missing_upstream'])
    assert missing_here['differing_blob']['size'] is None
    assert ('diverged', 1, 1) == (missing_there['relation'], missing_there['blobs_differing'],
                                  missing_there['blobs_missing_upstream'])
    assert missing_there['differing_blob']['upstream_size'] is None


def test_a_lost_folder_counts_each_of_its_files(site, upstream):
    shutil.rmtree(site.folder)

    assert ['diverged', 4, 0] == differing(site, upstream)
    assert ['diverged', 4, 4] == differing(upstream, site)


def test_the_last_common_transaction_precedes_the_first_difference(site, upstream):
    os.unlink(site.blob('last'))
    common = compare(site.path, upstream.path)['common']

    assert site.revision('small')[1] == common['tid']


def test_only_transactions_after_the_verified_one_are_compared(site, upstream):
    verified = site.tids()[-1]
    os.unlink(site.blob('small'))
    upstream.upload(newer=b'newer')
    site = upstream.copy_to(site.parent.join('newer'))
    os.unlink(site.blob('small'))
    found = compare(site.path, upstream.path, verified)

    assert ('equal', 1, 0) == (found['relation'], found['blobs'], found['blobs_differing'])
    os.unlink(site.blob('newer'))
    assert ['diverged', 1, 0] == differing(site, upstream, verified)


def test_files_that_both_lack_are_no_difference(site, upstream):
    os.unlink(site.blob('small'))
    os.unlink(upstream.blob('small'))

    assert ['equal', 0, 0] == differing(site, upstream)


@pytest.mark.parametrize('packed', ['upstream', 'site'])
def test_files_that_a_pack_of_one_side_removed_are_no_difference(site, upstream, packed):
    for each in (site, upstream):
        each.replace_as(upstream, small=b'the second version', last=b'another')
    before = len(os.listdir(os.path.dirname(site.blob('small'))))
    chosen = {'site': site, 'upstream': upstream}[packed]
    chosen.pack(chosen.tids()[-1], noted=True)

    assert 2 == before
    assert 1 == len(os.listdir(os.path.dirname(chosen.blob('small'))))
    assert ['equal', 0, 0] == differing(site, upstream)
    os.unlink(site.blob('small'))
    assert ['diverged', 1, 0] == differing(site, upstream)


def test_the_file_of_an_undone_change_is_compared(site, upstream):
    site.upload(small=b'the second version')
    site.undo(site.tids()[-1])
    upstream = site.copy_to(upstream.parent.join('undone'))
    assert ['equal', 0, 0] == differing(site, upstream)
    with open(site.blob('small'), 'wb') as blob:
        blob.write(b'b talk')

    assert ['diverged', 1, 0] == differing(site, upstream)


def test_many_files_are_compared_in_batches(tmpdir, monkeypatch):
    upstream = BlobSite(tmpdir.mkdir('upstream'))
    for batch in range(3):
        upstream.upload(**{'n%d' % (100 * batch + each): b'%d' % each for each in range(100)})
    site = upstream.copy_to(tmpdir.join('site'))
    monkeypatch.setattr(blob_comparison, 'AT_ONCE', 70)
    monkeypatch.setattr(blob_comparison, 'BATCH_FILES', 8)
    for name, content in (('n7', b'8'), ('n155', b'56'), ('n299', b'-9')):
        with open(site.blob(name), 'wb') as blob:
            blob.write(content)

    assert 300 == compare(site.path, upstream.path)['blobs']
    assert ['diverged', 3, 0] == differing(site, upstream)


def test_content_does_not_move_between_hosts(site, upstream):
    found, moved = compare_remotely(site.path, upstream.path)

    assert 4 == found['blobs']
    assert moved < 10000


def test_a_host_of_a_release_without_blobs_is_not_asked_for_them(site, upstream, monkeypatch):
    opened = Server._open

    def of_earlier_release(self, payload, **values):
        answer, payload = opened(self, payload, **values)
        del answer['blobs']
        self._questions = {name: each for name, each in self._questions.items()
                           if 'blob' not in name}
        return answer, payload
    monkeypatch.setattr(Server, '_open', of_earlier_release)
    found, _ = compare_remotely(site.path, upstream.path)

    assert ('equal', 0) == (found['relation'], found['blobs'])


def test_a_pack_during_the_comparison_starts_it_again(site, upstream, monkeypatch):
    for each in (site, upstream):
        each.replace_as(upstream, small=b'the second version')
    find = blob_comparison.BlobComparison.finish
    packs = []

    def pack_first(self):
        if not packs:
            packs.append(site.pack(site.tids()[-1], noted=True))
        find(self)
    monkeypatch.setattr(blob_comparison.BlobComparison, 'finish', pack_first)

    found = module.compare(site.path, upstream.path)
    assert ('equal', 0) == (found['relation'], found['blobs_differing'])
    assert packs
