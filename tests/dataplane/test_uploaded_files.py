"""Files that users upload, in the database: every use that Indico makes of them."""
import base64
import io
import json
import os
import re
import threading
import zipfile

import pytest
from PIL import Image

from processes import Processes, wait_for
from uploading import Hosts, in_textarea, links, said


@pytest.fixture(scope='module')
def hosts(tmpdir_factory, htdocs, filled):
    folder = tmpdir_factory.mktemp('hosts')
    processes = Processes(folder)
    try:
        hosts = Hosts(processes, folder, htdocs, filled[0], site_conf='MaxUploadFilesTotalSize = 1\n')
        hosts.fields = json.loads(hosts.script('prepare_uploads.py'))
        yield hosts
    finally:
        processes.close()


@pytest.fixture
def user(hosts):
    return hosts.user()


@pytest.fixture
def other(hosts):
    """The user on the other host."""
    return hosts.user(hosts.two)


def test_a_file_is_sent_by_another_host(hosts, user, other):
    content = os.urandom(100000)
    path = user.add_material('/event/0', 'a talk.pdf', content)
    for each in (user, other):
        answer = each.get(path)
        assert (200, content) == (answer.status_code, answer.content)
        assert 'application/pdf' == answer.headers['Content-Type']
        assert 'inline; filename=a_talk.pdf' == answer.headers['Content-Disposition']
    assert not os.listdir(str(hosts.one.folder.join('indico', 'archive')))


def test_a_file_has_a_name_in_any_script(user, other):
    content = os.urandom(1000)
    path = user.add_material('/event/0', u'\xdcbersicht \u65e5\u672c.pdf', content)
    answer = other.get(path)
    assert (200, content) == (answer.status_code, answer.content)


def test_nothing_is_left_when_a_file_was_uploaded_or_sent(hosts, user):
    user.get(user.add_material('/event/0', 'left.pdf', 'x' * 100))
    assert_nothing_temporary(hosts)


def test_a_content_that_is_gone_is_answered_503_and_counted(hosts, user, other):
    path = user.add_material('/event/0', 'gone.pdf', 'content ' * 10)
    (stored,) = [each for each in hosts.blobs() if open(each).read() == 'content ' * 10]
    os.rename(stored, stored + '.away')
    answer = other.get(path)
    assert (503, '5') == (answer.status_code, answer.headers['Retry-After'])
    assert 'not available' in answer.text
    report = hosts.two.health()[1]
    assert 1 == report['files_missing']
    assert 'a file of event 0' == report['file_missing']
    assert (200, 0) == (user.get(path).status_code, hosts.one.health()[1]['files_missing']), 'it has a copy'
    os.rename(stored + '.away', stored)
    assert 200 == other.get(path).status_code


def picture(colour, kind='PNG'):
    target = io.BytesIO()
    Image.new('RGB', (40, 30), colour).save(target, kind)
    return target.getvalue()


def test_minutes_are_saved_read_replaced_and_emptied(hosts, user, other):
    for text in ('<b>first</b> minutes', 'second', '', 'third'):
        user.call('minutes.edit', confId='1', value=text)
        assert (text or None) == (other.call('minutes.edit', confId='1') or None)
        page = other.get('/event/1/material/minutes/minutes.html')
        assert 200 == page.status_code
        assert text in page.text


def test_a_logo_is_shown_replaced_and_not_sent_again(user, other):
    for colour in ('red', 'blue'):
        content = picture(colour)
        user.post('/event/0/manage/layout/style/logo/upload', files={'file': ('logo.png', content)})
        answer = other.get('/event/0/logo')
        assert (200, content, 'image/png') == (
            answer.status_code, answer.content, answer.headers['Content-Type'])
    for each in (user, other):
        again = each.get('/event/0/logo', headers={'If-None-Match': answer.headers['ETag']})
        assert 304 == again.status_code
    user.get('/event/0/manage/layout/style/logo/remove')
    user.post('/event/0/manage/layout/style/logo/remove')
    assert content != other.get('/event/0/logo').content


def test_a_style_sheet_and_a_picture_of_an_event_are_sent(user, other):
    css = 'h1 { colour: red }' * 10
    user.post('/event/0/manage/layout/style/css/upload', files={'file': ('own.css', css)})
    answer = other.get('/event/0/style.css')
    assert (200, css) == (answer.status_code, answer.text)
    assert 'text/css' in answer.headers['Content-Type']
    content = picture('green')
    told = in_textarea(user.post(
        '/event/0/manage/layout/images/upload', files={'file': ('pic.png', content)}))
    assert content == other.get(told['info']['picURL'].split('/indico')[1]).content


def test_an_icon_of_a_category_is_shown_and_removed(user, other):
    content = picture('red')
    user.post('/category/1/manage/data/save', files={'icon': ('icon.png', content)}, name='Some')
    assert content == other.get('/category/1/icon').content
    user.post('/category/1/manage/data/save', name='Some', delete='1')
    assert content != other.get('/category/1/icon').content


def test_material_of_a_category_a_session_and_a_talk(user, other):
    for owner in ('/category/1', '/event/0/contribution/0'):
        content = os.urandom(1000)
        assert content == other.get(add(user, owner, content)).content


def add(user, owner, content, name='talk.pdf', **fields):
    """Uploads material by the form of its owner; returns its path."""
    if owner.startswith('/category'):
        path = user.add_material(owner, name, content, form=owner + '/manage/files/add', **fields)
    elif 'contribution' in owner:
        event, _, talk = owner.partition('/contribution/')
        path = user.add_material(
            owner, name, content, form='%s/manage/contribution/%s/material/add' % (event, talk), **fields)
    else:
        path = user.add_material(owner, name, content, **fields)
    assert not isinstance(path, dict), path
    return path


def test_attachments_of_an_abstract_are_sent_and_packed(user, other):
    content = os.urandom(70000)
    author = ('[{"title": "", "firstName": "Ann", "familyName": "Lee", "affiliation": "x", '
              '"email": "ann@example.org", "phone": "", "isSpeaker": true}]')
    answer = user.post(
        '/event/0/call-for-abstracts/submit', files={'file': ('figures.dat', content)},
        title='An abstract', prAuthors=author, coAuthors='[]', validate='1', type='')
    assert 303 == answer.status_code, said(answer)
    answer = other.get('/event/0/call-for-abstracts/1/file/0.dat')
    assert 200 == answer.status_code, said(answer)
    assert content == answer.content
    package = other.post('/event/0/manage/call-for-abstracts/abstracts/perform-action', abstracts='1', PKGA='1')
    assert content in contents(package)


def contents(answer):
    """The contents of a package of files."""
    assert (200, 'application/zip') == (answer.status_code, answer.headers['Content-Type']), said(answer)
    package = zipfile.ZipFile(io.BytesIO(answer.content))
    assert package.testzip() is None
    return [package.read(name) for name in package.namelist()]


def test_attachments_of_a_registration_are_sent_and_packed(hosts, user, other):
    content = os.urandom(70000)
    values = {'First Name': 'Ann', 'Surname': 'Lee', 'Email': 'ann@example.org', 'Institution': 'x',
              'City': 'x', 'Country': 'CH', 'Position': 'x'}
    fields = dict((hosts.fields[caption], value) for caption, value in values.items()
                  if caption in hosts.fields)
    answer = user.post('/event/0/registration/register', files={hosts.fields['A file']: ('id.pdf', content)},
                       **fields)
    assert 303 == answer.status_code, said(answer)
    page = other.get('/event/0/manage/registration/users/0')
    (path,) = links(page, 'attachments')
    assert content == other.get(path).content
    package = other.post('/event/0/manage/registration/users/perform-action', registrant='0', PKG='1')
    assert content in contents(package)


def test_a_template_and_a_paper_for_reviewing(user, other):
    content = os.urandom(3000)
    told = in_textarea(user.post(
        '/event/0/manage/paper-reviewing/setup/templates/upload', files={'file': ('paper.tex', content)},
        name='A template', description='', format='LaTeX'))
    path = '/event/0/manage/paper-reviewing/setup/templates/' + told['info']['id']
    assert content == other.get(path).content
    paper = add(user, '/event/0/contribution/0', content * 2, 'paper.pdf', materialId='reviewing')
    assert content * 2 == other.get(paper).content


@pytest.mark.parametrize('kind', ['badge', 'poster'])
def test_a_background_is_shown_by_another_host_before_and_after_it_is_saved(hosts, user, kind):
    content = picture('yellow', 'JPEG')
    form = '/event/0/manage/tools/%ss/' % kind
    told = in_textarea(user.post(
        form + 'save-background', files={'file': ('back.jpg', content)}, templateId='7', bgPosition='Center'))
    other = user.at(hosts.two)
    assert content == other.get(told['url'].split('/indico')[1]).content
    template = '["A template", {"width": 400, "height": 300}, 50, %s, []]' % told['id']
    saved = other.post(form, templateId='7', templateData=template, new='True')
    assert 303 == saved.status_code, said(saved)
    number = '0'
    shown = user.get(form + 'background?templateId=7&backgroundId=' + number)
    assert (200, content) == (shown.status_code, shown.content)
    assert not any(name.startswith('Indico') for name in os.listdir(
        str(hosts.one.folder.join('indico', 'archive'))))


def test_all_files_of_an_event_are_a_package_also_minutes(user, other):
    names = dict(('part %d.pdf' % number, os.urandom(5000)) for number in range(3))
    for name, content in sorted(names.items()):
        add(user, '/event/2', content, name)
    user.call('minutes.edit', confId='2', value='what was said')
    package = other.post('/event/2/material/download', materialType='other')
    found = contents(package)
    assert set(names.values()) <= set(found)
    assert 'what was said' in found


def test_an_offline_site_is_made_sent_and_removed(hosts, user, other):
    content = os.urandom(70000)
    add(user, '/event/2', content, 'of the site.pdf')
    number = hosts.script('offline_site.py', '2')
    site = other.get('/event/2/manage/tools/offline/%s.zip' % number)
    assert content in contents(site)
    assert 'event-2.zip' in site.headers['Content-Disposition']
    hosts.script('offline_site.py', '2', number)
    assert 404 == other.get('/event/2/manage/tools/offline/%s.zip' % number).status_code
    assert {} == hosts.tree('offline')
    assert_nothing_temporary(hosts)


def test_a_copy_of_an_event_has_copies_of_its_files(hosts, user, other):
    content = os.urandom(5000)
    path = add(user, '/event/1', content)
    user.call('minutes.edit', confId='1', value='of the original')
    copied = user.post(
        '/event/1/manage/tools/clone', cloneType='once', stdyo='2030', stdmo='1', stddo='2',
        cloneMaterials='1', confirm='1')
    assert 303 == copied.status_code, said(copied)
    number = re.search('/event/([0-9]+)/', copied.headers['Location']).group(1)
    copy = '/event/%s/material/slides/0.pdf' % number
    assert content == other.get(copy).content
    assert 'of the original' == other.call('minutes.edit', confId=number)
    user.call('minutes.edit', confId='1', value='changed')
    user.call('material.resources.delete', confId='1', materialId='slides',
              resourceId=path.split('/')[-1].partition('.')[0])
    assert content == other.get(copy).content
    assert 'of the original' == other.call('minutes.edit', confId=number)


def test_a_file_is_read_by_the_http_api(user, other):
    content = os.urandom(5000)
    path = add(user, '/event/2', content)
    number = path.split('/')[-1].partition('.')[0]
    answer = other.get('/export/event/2/material/slides/%s.bin?cookieauth=yes' % number)
    assert (200, content) == (answer.status_code, answer.content)
    described = other.get('/export/event/2.json?cookieauth=yes').json()
    assert number in [each['id'] for material in described['results'][0]['material']
                      for each in material['resources']]


def test_a_file_that_is_too_large_or_empty_is_refused_in_indicos_words(hosts, user):
    before = hosts.tree()
    limits = hosts.user(hosts.two)
    told = limits.add_material('/event/0', 'large.pdf', 'x' * 2000000)
    assert 'ERROR' == told['status']
    assert 'exceeds the upload limit (1.0 Mb)' in str(told)
    told = user.add_material('/event/0', 'empty.pdf', '')
    assert 'ERROR' == told['status'] and 'seems to be empty' in str(told)
    assert before == hosts.tree()


def test_a_deleted_file_is_gone_and_can_be_restored(hosts, user, other):
    content = os.urandom(5000)
    path = add(user, '/event/2', content)
    number = path.split('/')[-1].partition('.')[0]
    oid = hosts.script('delete_file.py', '2', 'slides', number)
    assert content != other.get(path).content
    assert content not in [each[1] for each in hosts.tree().values()]
    hosts.script('restore_file.py', oid, '2', 'slides')
    assert content == other.get(path).content


def test_a_change_of_a_file_is_undone_with_the_objects_that_refer_to_it(hosts, user, other):
    user.call('minutes.edit', confId='0', value='first')
    user.call('minutes.edit', confId='0', value='second')
    hosts.undo()
    assert 'first' == other.call('minutes.edit', confId='0')
    content = os.urandom(5000)
    path = add(user, '/event/2', content)
    assert content == other.get(path).content
    hosts.undo()
    assert content != other.get(path).content


def test_uploads_at_the_same_time_are_all_stored_once(hosts, user):
    before = hosts.blobs()
    sent = dict(('at once %d.pdf' % number, os.urandom(20000)) for number in range(8))
    answers = []
    users = [user, user.at(hosts.two)] * 4

    def upload(each, name):
        answers.append(each.add_material('/event/2', name, sent[name]))
    threads = [threading.Thread(target=upload, args=pair) for pair in zip(users, sorted(sent))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert 8 == len(answers), answers
    assert sorted(sent.values()) == sorted(user.get(path).content for path in answers)
    assert 8 == len(hosts.blobs() - before)


def test_a_failed_request_leaves_no_file(hosts, user):
    """A copy of an event stores the first file before it finds that the second one is missing."""
    contents = [os.urandom(5000) for _ in range(2)]
    for number, content in enumerate(contents):
        add(user, '/event/1', content, '%d.pdf' % number, materialId='paper')
    before = hosts.blobs()
    (stored,) = [each for each in before if open(each, 'rb').read() == contents[1]]
    os.rename(stored, stored + '.away')
    hosts.evict()
    failed = user.post('/event/1/manage/tools/clone', cloneType='once', stdyo='2030', stdmo='1', stddo='2',
                       cloneMaterials='1', confirm='1')
    os.rename(stored + '.away', stored)
    assert (503, '5') == (failed.status_code, failed.headers['Retry-After'])
    assert before == hosts.blobs()
    assert_nothing_temporary(hosts)


def assert_nothing_temporary(hosts):
    for site in (hosts.one, hosts.two):
        assert [] == os.listdir(str(site.cache.join('tmp')))
        assert ['mako_modules'] == [name for name in os.listdir(
            str(site.folder.join('indico', 'tmp', 'one'))) if name != 'unavailable-files']
