"""Uploads and downloads while something is in their way: conflicts, small caches, missing files."""
import base64
import contextlib
import json
import os
import threading

import pytest
import requests
from BaseHTTPServer import BaseHTTPRequestHandler, HTTPServer

from processes import PATIENCE, Processes, free_ports
from uploading import Hosts, in_textarea, said

CACHE_BYTES = 200000
CONVERTER, = free_ports(1)
CONVERSION = '''
FileConverter = {'conversion_server': 'http://127.0.0.1%s/convert', 'response_url': 'http://indico/finished'}
'''


@pytest.fixture(scope='module')
def hosts(tmpdir_factory, htdocs, filled):
    """Caches that hold less than two files; `two` tries each request three times."""
    folder = tmpdir_factory.mktemp('hosts')
    processes = Processes(folder)
    try:
        yield Hosts(
            processes, folder, htdocs, filled[0], cache_bytes=CACHE_BYTES,
            first_conf=CONVERSION % '',  # Indico cannot look up a host with a port
            site_conf='ForceConflicts = 2' + CONVERSION % (':%d' % CONVERTER))
    finally:
        processes.close()


@pytest.fixture
def user(hosts):
    return hosts.user()


def test_files_are_whole_while_the_cache_has_no_room_for_them(hosts, user):
    sent = [os.urandom(CACHE_BYTES) for _ in range(5)]
    paths = [user.add_material('/event/0', '%d.dat' % number, content)
             for number, content in enumerate(sent)]
    user.get(paths[0])
    answers = []

    def fetch():
        for path in paths * 2:
            answers.append((path, user.get(path)))
    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert 40 == len(answers)
    assert [] == [said(answer) for path, answer in answers
                  if (200, sent[paths.index(path)]) != (answer.status_code, answer.content)]


def test_a_path_has_the_name_of_the_file_and_outlives_its_place_in_the_cache(hosts, user):
    content = os.urandom(5000)
    path = user.add_material('/event/1', 'a talk.pdf', content)
    number = path.rpartition('/')[2].partition('.')[0]
    told = json.loads(hosts.script('evicted_file.py', str(hosts.one.cache), '1', 'slides', number))
    assert ['a_talk.pdf', base64.b64encode(content), False] == told


def test_after_conflicts_a_file_is_stored_once_and_whole(hosts, user):
    conflicting = user.at(hosts.two)
    content = os.urandom(70000)
    before = hosts.blobs()
    path = conflicting.add_material('/event/0', 'late.dat', content)
    assert content == user.get(path).content
    told = in_textarea(conflicting.post(
        '/event/0/manage/paper-reviewing/setup/templates/upload', files={'file': ('paper.tex', content)},
        name='A template', description='', format='LaTeX'))
    assert content == user.get('/event/0/manage/paper-reviewing/setup/templates/' + told['info']['id']).content
    conflicting.call('minutes.edit', confId='1', value='of the third try')
    assert 'of the third try' == user.call('minutes.edit', confId='1')
    new = hosts.blobs() - before
    assert [content, content, 'of the third try'] == sorted(
        (open(each, 'rb').read() for each in new), key=len, reverse=True)
    for site in (hosts.one, hosts.two):
        assert [] == os.listdir(str(site.cache.join('tmp')))


@contextlib.contextmanager
def converter(received):
    """A conversion server, which notes the bodies of requests."""
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(self.rfile.read(int(self.headers['Content-Length'])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(('127.0.0.1', CONVERTER), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_file_is_handed_over_for_conversion_under_its_name_and_comes_back(hosts, user):
    received = []
    content = 'words ' * 20000
    with converter(received):
        path = user.at(hosts.two).add_material('/event/2', 'a talk.odp', content, topdf='1')
    assert 'filename="a_talk.odp"' in received[0]
    assert content in received[0]
    converted = 'converted ' * 20000
    answer = requests.post(
        hosts.one.address + '/indico/conversion-finished', timeout=PATIENCE, data={
            'status': '1', 'directory': "{'confId': '2', 'materialId': 'slides'}",
            'filename': 'a_talk.pdf', 'content': base64.encodestring(converted)})
    assert (200, 'a_talk.pdf') == (answer.status_code, answer.text)
    folder, _, name = path.rpartition('/')
    number = int(name.partition('.')[0]) + 1
    assert converted == user.get('%s/%d.pdf' % (folder, number)).content
