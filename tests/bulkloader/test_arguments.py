"""The command line is refused before anything is opened when it makes no sense."""
import pytest

from bulkloader.__main__ import main
from bulkloader.arguments import command, parse
from bulkloader.specification import Parameters

GOOD = ['--conferences', '40', '--contributions', '5']


def refusal(capsys, *argv):
    with pytest.raises(SystemExit) as end:
        main(list(argv))
    assert 2 == end.value.code
    return capsys.readouterr()[1].splitlines()[-1]


def test_defaults():
    action, options = parse(GOOD)
    assert 'load' == action
    assert Parameters(40, 5, 1, 50, 1) == options.parameters
    assert (100, False) == (options.batch, options.add)


def test_conferences_without_contributions_are_possible():
    assert 0 == parse(['--conferences', '1', '--contributions', '0'])[1].parameters.contributions


@pytest.mark.parametrize('option, value, reason', [
    ('--conferences', '0', '0 is less than 1'),
    ('--conferences', '-3', '-3 is less than 1'),
    ('--conferences', '2.5', "'2.5' is not a whole number"),
    ('--conferences', 'many', "'many' is not a whole number"),
    ('--contributions', '-1', '-1 is less than 0'),
    ('--contributions', '1001', '1001 is more than 1000'),
    ('--categories', '0', '0 is less than 1'),
    ('--rooms', '0', '0 is less than 1'),
    ('--seed', '-1', '-1 is less than 0'),
    ('--batch', '0', '0 is less than 1'),
])
def test_a_bad_number_is_refused(capsys, option, value, reason):
    assert refusal(capsys, *GOOD + [option, value]) == (
        'bin/bulkload: error: argument %s: %s' % (option, reason))


def test_more_categories_than_conferences_are_refused(capsys):
    assert refusal(capsys, *GOOD + ['--categories', '41']) == (
        'bin/bulkload: error: argument --categories: 41 categories for 40 conferences would leave '
        'some empty')


def test_the_number_of_conferences_has_to_be_given(capsys):
    assert refusal(capsys, '--contributions', '5') == (
        'bin/bulkload: error: argument --conferences is required')


def test_verify_refuses_a_file_that_is_missing(capsys, tmpdir):
    missing = tmpdir.join('zodb.conf')
    assert refusal(capsys, 'verify', '--storage-conf', str(missing)) == (
        'bin/bulkload verify: error: argument --storage-conf: there is no file %s' % missing)


def test_a_missing_indico_conf_is_one_message(capsys, tmpdir, monkeypatch):
    missing = tmpdir.join('indico.conf')
    monkeypatch.setenv('INDICO_CONF', str(missing))
    assert 2 == main(GOOD)
    assert [
        'NOTICE: there is no indico.conf', 'DETAIL: INDICO_CONF is %s' % missing,
        'HINT: bin/zodbrepl up writes it; for another Indico set INDICO_CONF',
    ] == capsys.readouterr()[1].splitlines()


def test_the_command_of_some_parameters_gives_these_parameters():
    parameters = Parameters(40, 5, 3, 7, 9)
    assert parameters == parse(command(parameters).split()[1:])[1].parameters
