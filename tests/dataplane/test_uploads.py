"""Uploaded files are moved from the archive into the database and back, and verified."""
import os
import shutil
import signal
import subprocess
import threading

import pytest
import ZODB.config
from ZODB.DB import DB
from ZODB.POSException import ConflictError

from indico_zodbrepl.dataplane.uploads import database, entries, importing
from indico_zodbrepl.dataplane.uploads.importing import Import
from indico_zodbrepl.dataplane.uploads.progress import Progress
from indico_zodbrepl.dataplane.uploads.reading import reader_of
from indico_zodbrepl.dataplane.uploads.survey import Survey, amount

from upload_sites import SQLiteSite, UploadSite

LOCKED, FULL, INTERRUPTED = 8, 9, 130


@pytest.fixture
def site(processes, tmpdir):
    return UploadSite(processes, tmpdir)


def import_here(site, digest_of=None, before_entries=None):
    """Imports in this process; `before_entries()` is called between the two transactions."""
    folders = dict.fromkeys(('main', 'offline', 'deleted'), str(site.archive))
    with database.opened(str(site.conf)) as opened:
        survey = Survey(opened, folders)
        with reader_of(opened.storage, str(site.conf)) as digests:
            run = Import(opened, digest_of or digests, folders,
                         Progress(amount(survey.archived), lambda line: None))
            verified = run._verified

            def interposed(stored):
                right = verified(stored)
                if before_entries is not None:
                    before_entries()
                return right
            run._verified = interposed
            run.run(survey.archived)
    return run


def test_imported_files_are_whole_and_stay_in_the_archive(site):
    said = site.done('import')
    assert {'files': 10, 'bytes': sum(map(len, site.written.values()))} == said['imported']
    assert ([], [], 0) == (said['missing'], said['failed'], said['skipped'])
    site.assert_right(imported=10)
    for number in range(10):
        assert site.archive.join('2026', 'C%d' % (number // 5), str(number)).check()
    site.forget_cache()
    site.assert_right(imported=10)


def test_a_second_import_has_nothing_to_do(site):
    site.done('import')
    tid = site.node.last_tid()
    assert 0 == site.done('import')['imported']['files']
    assert tid == site.node.last_tid()


def test_files_that_are_missing_are_named_and_keep_their_entries(site):
    site.archive.join('2026', 'C1', '7').remove()
    del site.written['7']
    said = site.done('import')
    assert (9, 1) == (said['imported']['files'], len(said['missing']))
    assert {'repository': 'main', 'id': '7', 'owner': 'event 1', 'name': 'talk 7.pdf',
            'path': '2026/C1/7/talk 7.pdf'} == said['missing'][0]
    assert '2026/C1/7/talk 7.pdf' == site.entries()['7']


def test_a_survey_counts_and_changes_nothing(site):
    site.done('import')
    with site.root() as root:
        site.upload(root, 10)
        site.files(root)['11'] = '2026/C2/11/gone.pdf'
    site.archive.join('2026', 'forgotten.pdf').write('12345')
    tid = site.node.last_tid()
    said = site.done('survey', '--unreferenced')
    assert {'files': 1, 'bytes': len(site.written['10'])} == said['archived']
    assert 10 == said['stored']['files']
    assert ['gone.pdf'] == [each['name'] for each in said['missing']]
    assert {'files': 1, 'bytes': 5, 'named': ['2026/forgotten.pdf']} == said['unreferenced']
    assert tid == site.node.last_tid()


def test_names_in_latin_1_are_found(site):
    name = u'r\xe9sum\xe9.pdf'
    with site.root() as root:
        site.files(root)['12'] = '2026/C2/12/' + name.encode('utf-8')
    site.written['12'] = 'latin'
    site.archive.ensure('2026', 'C2', '12', dir=True)
    with open(os.path.join(str(site.archive), '2026/C2/12', name.encode('latin-1')), 'wb') as file:
        file.write('latin')
    assert 11 == site.done('import')['imported']['files']
    site.assert_right(imported=11)


@pytest.mark.parametrize('after', [0.3, 0.6, 0.9, 1.2, 1.5, 2.0])
def test_an_import_that_is_killed_goes_on(processes, tmpdir, after):
    site = UploadSite(processes, tmpdir, 300)
    program = subprocess.Popen(site.command('import'), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    killer = threading.Timer(after, program.kill)
    killer.start()
    program.communicate()
    killer.cancel()
    site.assert_right()
    site.done('import')
    site.assert_right(imported=300)
    assert [] == site.done('verify')['findings']


def test_an_interrupted_import_says_so_and_goes_on(processes, tmpdir):
    site = UploadSite(processes, tmpdir, 2)
    with open(str(site.archive.join('2026', 'C0', '0', 'talk 0.pdf')), 'r+b') as large:
        large.truncate(1 << 30)
    del site.written['0']
    program = subprocess.Popen(site.command('import'), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.stderr.readline()
    program.send_signal(signal.SIGINT)
    output, error = program.communicate()
    assert (INTERRUPTED, '') == (program.returncode, output)
    assert error.endswith('interrupted\n')
    assert all(isinstance(value, str) for value in site.entries().values())


def test_content_that_arrives_damaged_is_not_taken(site):
    def digest_of(oid, tid):
        return [1, 'f' * 64]

    run = import_here(site, digest_of)
    assert (0, 10) == (run.files, len(run.failed))
    site.assert_right(imported=0)


def test_files_uploaded_and_deleted_meanwhile_are_right(site):
    def others():
        with site.root() as root:
            site.upload(root, 77)
            del site.files(root)['3']
            del site.written['3']

    run = import_here(site, before_entries=others)
    assert (9, 1) == (run.files, run.skipped)
    site.assert_right(imported=9)


def test_a_file_that_is_replaced_while_it_is_imported_has_its_new_content(site):
    changes = ['second', 'third']

    def replace():
        if changes:
            with site.root() as root:
                site.upload(root, 4, changes.pop(0) * 500)

    run = import_here(site, before_entries=replace)
    assert (10, []) == (run.files, run.failed)
    assert site.written['4'].startswith('third')
    site.assert_right(imported=10)


def test_a_file_that_is_replaced_after_it_was_imported_is_imported_again(site, monkeypatch):
    monkeypatch.setattr(importing, 'MOST_FILES', 3)
    batches = []

    def replace():
        batches.append(None)
        if len(batches) == 3:
            path = str(site.archive.join('2026', 'C0', '0', 'talk 0.pdf'))
            site.written['0'] = 'written by a request that began before'
            with open(path, 'wb') as replaced:
                replaced.write(site.written['0'])

    run = import_here(site, before_entries=replace)
    assert (10, 0, []) == (run.files, run.skipped, run.failed)
    site.assert_right(imported=10)


def test_an_import_lets_others_commit_to_the_same_entries(processes, tmpdir):
    """A client uploads and deletes all the time; none of its changes is lost or undone."""
    site = UploadSite(processes, tmpdir, 200)
    stop, changed = threading.Event(), []

    def committed(db, change):
        while True:
            try:
                with db.transaction() as connection:
                    return change(connection.root())
            except ConflictError:
                pass  # tried again, as Indico does

    def work():
        with_others = DB(ZODB.config.storageFromURL(str(other)))
        try:
            number = 1000
            while not stop.is_set():
                key = committed(with_others, lambda root: site.upload(root, number))
                changed.append(key)
                if number % 3 == 0:
                    committed(with_others, lambda root: site.files(root).pop(key))
                    del site.written[key]
                number += 1
        finally:
            with_others.close()

    other = site.write_conf(tmpdir.ensure('other', dir=True))
    writer = threading.Thread(target=work)
    writer.start()
    try:
        said = site.done('import')
    finally:
        stop.set()
        writer.join()
    assert 200 <= said['imported']['files']
    assert changed
    site.assert_right()


def test_without_our_server_the_content_is_fetched_and_compared(site):
    with database.opened(str(site.conf)) as opened:
        opened.storage.base._info.pop('blob_digest')
        with reader_of(opened.storage, str(site.conf)) as digest_of:
            import_here(site)
            opened.refresh()
            content = entries.Content(*entries.repositories(opened.root)['main']['5'])
            content.blob._p_activate()
            assert (content.size, content.sha256) == tuple(
                digest_of(content.blob._p_oid, content.blob._p_serial))
            os.remove(site.blob_file('5'))
            assert digest_of(content.blob._p_oid, content.blob._p_serial) is None
    assert [] == [name for name in os.listdir(str(site.folder)) if name.startswith('.')]


@pytest.mark.parametrize('shared', [True, False])
def test_on_sqlite_files_are_imported_verified_and_exported(processes, tmpdir, shared):
    site = SQLiteSite(processes, tmpdir, shared)
    assert 10 == site.done('import')['imported']['files']
    site.assert_right(imported=10)
    assert [] == site.done('verify')['findings']
    site.archive.remove()
    assert 10 == site.done('export')['exported']['files']
    site.assert_right(imported=0)


def test_a_data_file_that_a_server_has_open_is_refused(site):
    site.conf.write('<filestorage>\n path %s\n blob-dir %s\n</filestorage>\n' % (
        site.node.data, site.node.blobs))
    status, said, _ = site.run('import')
    assert (LOCKED, None) == (status, said)


def test_a_database_without_indico_is_refused(site):
    with site.root() as root:
        del root['rootCategory']
    status, said, error = site.run('import')
    assert (5, None, 'the database holds no Indico\n') == (status, said, error)


# The way back


def test_an_export_is_the_archive_that_there_was(site, tmpdir):
    before = snapshot(site.archive)
    site.done('import')
    site.archive.remove()
    site.forget_cache()
    said = site.done('export')
    assert {'files': 10, 'bytes': sum(map(len, site.written.values()))} == said['exported']
    assert before == snapshot(site.archive)
    site.assert_right(imported=0)


def snapshot(folder):
    return dict((each.relto(folder), each.read('rb')) for each in folder.visit() if each.isfile())


def test_a_copy_changes_no_entry(site, tmpdir):
    site.done('import')
    tid = site.node.last_tid()
    for _ in range(2):
        said = site.done('export', '--to', str(tmpdir.join('copy')))
        assert (10, 0) == (said['exported']['files'], said['renamed'])
    assert snapshot(site.archive) == snapshot(tmpdir.join('copy'))
    assert tid == site.node.last_tid()


def test_an_export_replaces_no_other_file(site):
    site.done('import')
    taken = site.archive.join('2026', 'C0', '2', 'talk 2.pdf')
    taken.write('another file')
    said = site.done('export')
    assert (10, 1) == (said['exported']['files'], said['renamed'])
    assert 'another file' == taken.read()
    assert '2026/C0/2/2-1/talk 2.pdf' == site.entries()['2']
    site.assert_right(imported=0)


def test_an_export_leaves_the_archive_for_nothing(site):
    with site.root() as root:
        site.files(root)['66'] = '../outside.pdf'
    site.written['66'] = 'outside'
    site.folder.join('outside.pdf').write('outside')
    site.done('import')
    site.folder.join('outside.pdf').remove()
    site.done('export')
    assert not site.folder.join('outside.pdf').check()
    assert 'exported/66-1/outside.pdf' == site.entries()['66']
    site.assert_right(imported=0)


@pytest.mark.parametrize('after', [0.3, 0.6, 0.9, 1.2])
def test_an_export_that_is_killed_goes_on(processes, tmpdir, after):
    site = UploadSite(processes, tmpdir, 300)
    site.done('import')
    shutil.rmtree(str(site.archive))
    program = subprocess.Popen(site.command('export'), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    killer = threading.Timer(after, program.kill)
    killer.start()
    program.communicate()
    killer.cancel()
    site.assert_right()
    site.done('export')
    site.assert_right(imported=0)
    assert not site.archive.join('.zodbrepl-part').check()


def test_damaged_content_is_not_exported(site):
    site.done('import')
    path = site.blob_file('6')
    os.chmod(path, 0o600)
    with open(path, 'r+b') as blob:
        blob.write('X')
    site.forget_cache()
    site.archive.join('2026', 'C1', '6').remove()
    said = site.done('export')
    assert 9 == said['exported']['files']
    assert ['talk 6.pdf'] == [each['name'] for each in said['failed']]
    assert not site.archive.join('2026', 'C1', '6', 'talk 6.pdf').check()
    assert isinstance(site.entries()['6'], tuple)


@pytest.fixture
def small_disk(tmpdir):
    """A folder on a file system of 4 MB."""
    folder = tmpdir.ensure('disk', dir=True)
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', str(folder)]
    if subprocess.call(mount):
        pytest.skip('only root can mount a small disk')
    yield folder
    subprocess.check_call(['umount', '--lazy', str(folder)])


def test_an_export_to_a_full_disk_says_so_and_goes_on(processes, tmpdir, small_disk):
    site = UploadSite(processes, tmpdir, 2)
    with site.root() as root:
        site.upload(root, 2, os.urandom(5 << 20))
    site.done('import')
    archive, site.archive = site.archive, small_disk
    status, _, error = site.run('export')
    assert FULL == status, error
    assert [] == [each for each in small_disk.visit() if each.basename.startswith('.zodbrepl')]
    site.archive = archive
    site.done('export')
    site.assert_right(imported=0)


def test_an_import_to_a_full_server_says_so_and_goes_on(processes, tmpdir, small_disk):
    site = UploadSite(processes, small_disk, 2)
    site.archive = tmpdir.ensure('archive', dir=True)
    small_disk.join('archive').remove()
    with site.root() as root:
        for number in range(2):
            site.upload(root, number)
        site.upload(root, 2, os.urandom(5 << 20))
    status, _, error = site.run('import')
    assert FULL == status, error
    site.assert_right()
    subprocess.check_call(['mount', '-o', 'remount,size=40m', str(small_disk)])
    site.done('import')
    site.assert_right(imported=3)


# Verification


def test_content_that_is_missing_or_differs_is_found(site):
    site.archive.join('2026', 'C1', '9', 'talk 9.pdf').move(site.folder.join('kept'))
    site.done('import')
    os.remove(site.blob_file('1'))
    for key, position in (('2', 'start'), ('3', 'end')):
        os.chmod(site.blob_file(key), 0o600)
        with open(site.blob_file(key), 'r+b' if position == 'start' else 'ab') as blob:
            blob.write('X')
    site.forget_cache()
    said = site.done('verify')
    assert {'1': 'its content is missing', '2': 'its content differs from what is recorded',
            '3': 'it has 2007 bytes, and 2006 are recorded',
            '9': 'its file is missing in the archive'} == dict(
                (each['id'], each['why']) for each in said['findings'])
    assert ['event 0'] == sorted(set(each['owner'] for each in said['findings'] if each['id'] in '123'))
    assert (1, 9) == (said['archived'], said['verified']['files'])


def test_a_storage_without_files_is_verified_like_others(site):
    """Such as NEO, which has none: only the archive is looked at."""
    site.node.process.kill()
    site.conf.write('<demostorage>\n<filestorage>\npath %s\nread-only true\n</filestorage>\n'
                    '</demostorage>\n' % site.node.data)
    site.archive.join('2026', 'C1', '8').remove()
    said = site.done('verify')
    assert (10, ['8']) == (said['archived'], [each['id'] for each in said['findings']])


def test_a_verification_of_right_files_finds_nothing_and_fetches_none(site):
    site.done('import')
    site.forget_cache()
    assert {'archive': str(site.archive), 'archived': 0, 'findings': [], 'verified': {
        'files': 10, 'bytes': sum(map(len, site.written.values()))}} == site.done('verify')
    assert [] == [each for each in site.folder.join('cache').visit(fil='*.blob')]
