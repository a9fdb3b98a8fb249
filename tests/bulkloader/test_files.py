"""Uploaded files of events: what a run makes of them, where they go, and that it goes on."""
from __future__ import unicode_literals

import hashlib
import os
import subprocess
import sys
import time

import pytest

from bulkloader.arguments import command, parse
from bulkloader.specification import Contents, Parameters, Sizes, Specification
from bulkloader.specification.draws import Draws
from homes import ROOT, Home

COMMAND = '--conferences 12 --contributions 0-3 --files 0-4 --file-size 1KiB-40KiB --seed 3'
SPECIFICATION = Specification(Parameters(
    12, '0-3', 1, 50, 3, files='0-4', file_size='1KiB-40KiB'))
WITH_BLOBS = '\n<filestorage>\n  path {folder}/Data.fs\n  blob-dir {folder}/blobs\n</filestorage>\n'
# With a quota the loader writes to it as to a server; see `homes`.
AS_TO_A_SERVER = WITH_BLOBS.replace('</file', '  quota 1000GB\n</file')
COUNT = sum(SPECIFICATION.files.count(index) for index in range(12))


@pytest.fixture(params=[('blobs', WITH_BLOBS), ('blobs', AS_TO_A_SERVER), ('archive', WITH_BLOBS)],
                ids=['blobs', 'blobs as of a server', 'archive'])
def home(request, tmpdir, empty_indico):
    kind, storage = request.param
    made = Home(tmpdir.join('home'), storage)
    conf = made.folder.join('indico.conf')
    conf.write(conf.read() + "\nFileRepository = '%s'\n" % kind)
    empty_indico.copy(made.data)
    made.kind = kind
    yield made
    made.close()


def paths(home):
    """The paths of the files that a home has, blobs or in the archive."""
    folder, suffix = str(home.folder.join(home.kind)), '.blob' if home.kind == 'blobs' else '.pdf'
    return sorted(os.path.join(each, name) for each, _, names in os.walk(folder)
                  for name in names if name.endswith(suffix))


def stored(home):
    """The contents of these files."""
    found = []
    for path in paths(home):
        with open(path, 'rb') as content:
            found.append(content.read())
    return found


def wanted():
    contents = Contents()
    return sorted(b''.join(contents.blocks(each)) for index in range(12)
                  for each in SPECIFICATION.files.of(index))


@pytest.mark.parametrize('method', ['bulk', 'model'])
def test_the_files_are_those_of_the_specification(home, method):
    result = home.bulkload('%s --method %s' % (COMMAND, method))
    assert 0 == result.code, result.text
    assert '%d of %d files (100 %%)' % (COUNT, COUNT) in result.text
    assert wanted() == sorted(stored(home))
    result = home.bulkload('verify --json')
    assert (0, COUNT, COUNT, []) == (
        result.code, result.json['files'], result.json['expected_files'], result.json['problems'])


def test_a_killed_run_goes_on_with_the_files_that_lack(home):
    loader = home.start_bulkload(COMMAND.replace('--file-size 1KiB-40KiB', '--file-size 8MiB'))
    deadline = time.time() + 180
    while not paths(home):
        assert time.time() < deadline and loader.is_running()
        time.sleep(0.01)
    loader.kill()
    result = home.bulkload(COMMAND.replace('--file-size 1KiB-40KiB', '--file-size 8MiB'))
    assert 0 == result.code, result.text
    assert 'Going on: 12 of 12 conferences are there.' in result.text
    result = home.bulkload('verify --json')
    assert (0, COUNT, []) == (result.code, result.json['files'], result.json['problems'])


def test_verify_finds_files_that_are_missing_or_differ(home):
    assert 0 == home.bulkload(COMMAND).code
    changed = paths(home)[0]
    os.chmod(changed, 0o600)
    with open(changed, 'r+b') as changed:
        changed.write(b'X')
    result = home.bulkload('verify')
    assert 1 == result.code
    assert 'has another content' in result.text


def test_sizes_have_the_mean_that_was_asked_for():
    for text, mean, most in (('3MiB', 3 << 20, 3 << 20), ('1MiB-3MiB', 2 << 20, 3 << 20),
                             ('mean:1MiB,max:50MiB', 1 << 20, 50 << 20)):
        sizes = Sizes(text)
        drawn = [sizes.drawn(Draws(1, text, number)) for number in range(4000)]
        assert abs(sum(drawn) / 4000.0 - mean) < 0.1 * mean
        assert 0 < min(drawn) and max(drawn) <= most


@pytest.mark.parametrize('text, reason', [
    ('big', "'big' is not a size such as 500KiB, a range such as 100KiB-5MiB, or "
     'mean:1MiB,max:50MiB'),
    ('2MiB-1MiB', '2MiB-1MiB ends before it begins'),
    ('mean:3MiB,max:5MiB', 'the mean of mean:3MiB,max:5MiB has to be above 0 and at most half of '
     'the maximum'),
    ('2000TiB', '2000TiB is more than 1TiB'),
])
def test_sizes_without_sense_are_refused(capsys, text, reason):
    with pytest.raises(SystemExit):
        parse(['--conferences', '1', '--contributions', '0', '--files', '1', '--file-size', text])
    assert reason in ' '.join(capsys.readouterr()[1].split())


def test_the_command_of_a_run_names_its_files():
    given = Parameters(9, 5, 3, 7, 9, files='0-5', file_size='mean:1MiB,max:9MiB')
    again = parse(command(given).split()[1:])[1].parameters
    assert given == again
    assert '--files 0-5 --file-size mean:1MiB,max:9MiB' in command(given)


DIGEST = """
import hashlib
from bulkloader.specification import Contents, Parameters, Specification
specification = Specification(Parameters(50, 0, 1, 5, 7, files='mean:2,max:9', file_size='mean:20KiB,max:4MiB'))
contents, digest = Contents(), hashlib.sha256()
for index in range(50):
    for each in specification.files.of(index):
        digest.update((each.name + contents.sha256(each)).encode('ascii'))
print(digest.hexdigest())
"""


def test_both_interpreters_make_the_same_files():
    home = os.environ.get('ZODBREPL_HOME', str(ROOT))
    env = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE='yes')
    control = os.path.join(home, 'bin', 'control-python')
    assert 1 == len(set(subprocess.check_output([str(python), '-c', DIGEST], env=env)
                        for python in (sys.executable, control)))


def test_a_file_is_as_long_as_it_should_be():
    contents = Contents()
    for size in (1, 10, 100, (1 << 20) + 3, 9 << 20):
        file = SPECIFICATION.files.of(1)[0]._replace(size=size)
        content = b''.join(contents.blocks(file))
        assert size == len(content)
        assert contents.sha256(file) == hashlib.sha256(content).hexdigest()
