"""Forms with files, which Indico reads in blocks: with the same outcome as Werkzeug's lines."""
import io
import random

import pytest
from werkzeug import formparser, wsgi

from indico.web.flask import multipart

BOUNDARY = '----WebKitFormBoundary7MA4YWxkTrZu0gW'
PIECES = ['\r', '\n', '\r\n', '\r\n--', '--' + BOUNDARY[:-1], '\r\n--' + BOUNDARY[:9], 'x', '\0' * 7, 'text ']


def form_of(contents):
    parts = ['--%s\r\nContent-Disposition: form-data; name="file"; filename="%d.bin"\r\n'
             'Content-Type: application/octet-stream\r\n\r\n%s\r\n' % (BOUNDARY, number, content)
             for number, content in enumerate(contents)]
    parts.append('--%s\r\nContent-Disposition: form-data; name="uploadType"\r\n\r\nfile\r\n' % BOUNDARY)
    return ''.join(parts) + '--%s--\r\n' % BOUNDARY


def parsed(body, lines, monkeypatch):
    """Returns the fields of a form and the contents of its files."""
    monkeypatch.setattr(formparser, 'make_line_iter', lines)
    parser = formparser.MultiPartParser(formparser.default_stream_factory)
    fields, files = parser.parse(io.BytesIO(body), BOUNDARY, len(body))
    return fields.items(), [each.read() for each in files.getlist('file')]


@pytest.mark.parametrize('seed', range(40))
def test_contents_of_any_bytes_are_whole(seed, monkeypatch):
    rand = random.Random(seed)
    monkeypatch.setattr(multipart, 'BLOCK', rand.choice([128, 300, 4096]))
    contents = [''.join(rand.choice(PIECES) * rand.choice([1, 1, 60]) for _ in range(rand.randrange(60)))
                for _ in range(4)]
    body = form_of(contents)
    mine = parsed(body, multipart.pieces, monkeypatch)
    assert ([('uploadType', u'file')], contents) == mine
    assert parsed(body, wsgi.make_line_iter, monkeypatch) == mine


def test_a_content_without_line_ends_is_in_memory_in_pieces_only():
    form = form_of(['\0' * (8 << 20)])
    lengths = [len(each) for each in multipart.pieces(io.BytesIO(form), len(form))]
    assert sum(lengths) == len(form)
    assert max(lengths) <= 2 * multipart.BLOCK


def test_a_form_that_ends_too_early_is_refused(monkeypatch):
    body = form_of(['content' * 100])[:300]
    with pytest.raises(ValueError):
        parsed(body, multipart.pieces, monkeypatch)
