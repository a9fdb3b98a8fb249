"""The numbers of answers in the health report, of an Indico that fails, behind an HTTP server."""
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import requests

from indico_zodbrepl.dataplane.indico import app
from indico_zodbrepl.dataplane.indico.instance import IndicoInstance
from processes import PATIENCE


class QuietHandler(WSGIRequestHandler):

    def log_message(self, *args):
        pass


@pytest.fixture
def serve(monkeypatch):
    """Returns the address of an instance, of which `make` returns Indico's application."""
    servers = []
    monkeypatch.setattr(app, 'is_connected', lambda db: True)

    def begin(make):
        instance = IndicoInstance()
        instance._make_application = make
        server = make_server(
            '127.0.0.1', 0, app.Application(instance, 'i1'), handler_class=QuietHandler)
        servers.append(server)
        thread = threading.Thread(target=server.serve_forever)
        thread.setDaemon(True)
        thread.start()
        return 'http://127.0.0.1:%d' % server.server_port
    try:
        yield begin
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def counted(address):
    report = requests.get(address + app.HEALTH_PATH, timeout=PATIENCE).json()
    return report['requests'], report['unavailable']


def status(address):
    return requests.get(address + '/indico/', timeout=PATIENCE).status_code


def fails(environ, start_response):
    raise KeyError('a bug')


def fails_while_it_answers(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    raise KeyError('a bug')


def begins_again(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    try:
        raise KeyError('a bug')
    except KeyError as error:
        start_response(
            '503 Service Unavailable', [('Content-Type', 'text/plain')],
            (KeyError, error, None))
    return ['unavailable']


def test_an_indico_that_cannot_be_built_is_counted(serve):
    def make():
        raise ImportError('a module is missing')
    address = serve(make)
    assert 500 == status(address)
    assert (1, 0) == counted(address)


def test_a_request_that_fails_before_its_answer_begins_is_counted(serve):
    address = serve(lambda: fails)
    assert [500, 500] == [status(address), status(address)]
    assert (2, 0) == counted(address)


def test_a_request_that_fails_after_its_answer_has_begun_is_counted_once(serve):
    address = serve(lambda: fails_while_it_answers)
    assert 500 == status(address)
    assert (1, 0) == counted(address)


def test_an_answer_that_replaces_another_is_counted_once(serve):
    address = serve(lambda: begins_again)
    assert 503 == status(address)
    assert (1, 1) == counted(address)
