"""Files of a newer release are refused, and left as they are."""
import json

import pytest

from indico_zodbrepl.dataplane.client.status import recorded_epoch
from indico_zodbrepl.dataplane.formats import NewerFormat, refuse_newer
from indico_zodbrepl.dataplane.recover.database import Notes
from indico_zodbrepl.dataplane.recover.program import NEWER, main


def test_a_newer_note_of_a_recovery_is_refused_and_left(tmpdir):
    path = tmpdir.join('salvaged.json')
    path.write(json.dumps({'format': 2, 'salvages': 'other'}))
    before = path.read()
    with pytest.raises(NewerFormat) as caught:
        Notes(str(tmpdir), None)
    text = str(caught.value)
    assert text.startswith('NOTICE: ') and '\nDETAIL: ' in text and '\nHINT: ' in text
    assert 'knows formats up to 1; nothing was changed' in text
    assert before == path.read()


def test_a_newer_export_has_an_exit_status_of_its_own(tmpdir, capsys):
    tmpdir.join('tail.json').write(json.dumps({'format': 2}))
    assert NEWER == main(['show', str(tmpdir), 'none.conf'])
    assert 'NOTICE: ' in capsys.readouterr()[1]


def test_a_newer_record_of_the_epoch_is_not_interpreted(tmpdir):
    path = tmpdir.join('epoch.json')
    record = {'format': 1, 'epoch': 3, 'primary': 'a'}
    path.write(json.dumps(record))
    assert {'epoch': 3, 'epoch_primary': 'a'} == recorded_epoch(str(path))
    path.write(json.dumps(dict(record, format=2)))
    assert {'epoch': None, 'epoch_primary': None} == recorded_epoch(str(path))


@pytest.mark.parametrize('values', [{}, {'format': 1}, [], None])
def test_other_files_are_not_newer(values):
    refuse_newer('path', values)
