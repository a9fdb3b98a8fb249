"""The command line is refused before anything is opened when it makes no sense."""
import pytest

from bulkloader.__main__ import main
from bulkloader.arguments import command, parse
from bulkloader.specification import PROFILES, Parameters

GOOD = ['--conferences', '40', '--contributions', '5']


def refusal(capsys, *argv):
    with pytest.raises(SystemExit) as end:
        main(list(argv))
    assert 2 == end.value.code
    return capsys.readouterr()[1].splitlines()[-1]


def parameters(text):
    return parse(text.split())[1].parameters


def test_defaults():
    action, options = parse(GOOD)
    assert 'load' == action
    assert Parameters(40, 5, 1, 50, 1) == options.parameters
    assert ('bulk', None, False) == (options.method, options.batch, options.add)


def test_the_method_decides_on_the_batch_unless_somebody_says_it():
    assert None is parse(GOOD + ['--method', 'model'])[1].batch
    assert 7 == parse(GOOD + ['--method', 'model', '--batch', '7'])[1].batch


def test_conferences_without_contributions_are_possible():
    assert 0 == parameters('--conferences 1 --contributions 0').contributions


def test_amounts_and_mixes_are_kept_as_they_were_given():
    wanted = parameters('--conferences 9 --contributions mean:12,max:60 --sessions 0-4 --speakers '
                        '0-3 --materials 2 --events meeting:2,lecture')
    assert ('mean:12,max:60', '0-4', '0-3', 2, 'meeting:2,lecture') == (
        wanted.contributions, wanted.sessions, wanted.speakers, wanted.materials, wanted.events)


@pytest.mark.parametrize('option, value, reason', [
    ('--conferences', '0', '0 is less than 1'),
    ('--conferences', '-3', '-3 is less than 1'),
    ('--conferences', '2.5', "'2.5' is not a whole number"),
    ('--conferences', 'many', "'many' is not a whole number"),
    ('--contributions', '-1', '-1 is less than 0'),
    ('--contributions', '1001', '1001 is more than 1000'),
    ('--contributions', '0-99999999999', '99999999999 is more than 1000'),
    ('--contributions', '40-0', '40-0 ends before it begins'),
    ('--contributions', 'mean:12', "'mean:12' is not a number such as 12, a range such as 0-40, "
     'or mean:12,max:60'),
    ('--contributions', 'na\xc3\xafve', "'na\\xc3\\xafve' is not a number such as 12, a range such "
     'as 0-40, or mean:12,max:60'),
    ('--contributions', 'mean:31,max:60', 'the mean of mean:31,max:60 has to be above 0 and at '
     'most half of the maximum'),
    ('--sessions', '101', '101 is more than 100'),
    ('--speakers', '0-21', '21 is more than 20'),
    ('--materials', '11', '11 is more than 10'),
    ('--events', 'party', "'party' is none of conference, meeting, lecture"),
    ('--events', 'meeting,meeting:2', "'meeting' is named twice"),
    ('--events', 'meeting:0', 'the weight of meeting is not a whole number from 1 to 999999'),
    ('--categories', '0', '0 is less than 1'),
    ('--fan-out', '1', '1 is less than 2'),
    ('--rooms', '0', '0 is less than 1'),
    ('--seed', '-1', '-1 is less than 0'),
    ('--batch', '0', '0 is less than 1'),
])
def test_a_bad_value_is_refused(capsys, option, value, reason):
    assert refusal(capsys, *GOOD + [option, value]) == (
        'bin/bulkload: error: argument %s: %s' % (option, reason))


@pytest.mark.parametrize('size', ['15', '15GB', '-1GiB', 'GiB', '0x1KiB'])
def test_a_bad_size_is_refused(capsys, size):
    assert refusal(capsys, '--target-size=' + size, '--contributions', '5') == (
        'bin/bulkload: error: argument --target-size: %r is not a size such as 500MiB or 15GiB'
        % size)


def test_more_categories_than_events_are_refused(capsys):
    assert refusal(capsys, *GOOD + ['--categories', '41']) == (
        'bin/bulkload: error: argument --categories: 41 categories for 40 events would leave '
        'some empty')


def test_the_number_of_events_has_to_be_given(capsys):
    assert refusal(capsys, '--contributions', '5') == (
        'bin/bulkload: error: one of the arguments --conferences, --target-size and --profile '
        'is required')


def test_the_number_of_contributions_has_to_be_given(capsys):
    assert refusal(capsys, '--conferences', '5') == (
        'bin/bulkload: error: argument --contributions is required, unless --profile is given')


def test_a_number_of_events_and_a_size_are_refused(capsys):
    assert refusal(capsys, *GOOD + ['--target-size', '1GiB']) == (
        'bin/bulkload: error: argument --target-size: not allowed with argument --conferences')


def test_a_target_size_is_a_number_of_events():
    small, large = [parameters('--contributions 0-10 --target-size %s' % size).conferences
                    for size in ('1GiB', '2.5GiB')]
    assert 5000 < small < 20000
    assert abs(large - 2.5 * small) < 5


def test_a_size_below_one_event_makes_one():
    assert 1 == parameters('--contributions 0 --target-size 1KiB').conferences


def test_a_profile_is_a_known_indico():
    assert PROFILES['report-2011'] == parameters('--profile report-2011')
    assert 85000 == PROFILES['report-2011'].conferences


def test_other_options_change_parts_of_a_profile():
    wanted = parameters('--profile report-2011 --conferences 850 --seed 3')
    assert (PROFILES['report-2011']._replace(conferences=850, categories=5, seed=3)) == wanted


def test_a_profile_can_be_brought_to_another_size():
    wanted = parameters('--profile report-2011 --target-size 10GiB')
    assert 165000 < wanted.conferences < 175000
    assert PROFILES['report-2011'].contributions == wanted.contributions


def test_categories_follow_from_the_events_in_one():
    assert 4 == parameters(' '.join(GOOD) + ' --events-per-category 12').categories


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


@pytest.mark.parametrize('wanted', [
    Parameters(40, 5, 3, 7, 9),
    Parameters(40, '0-5', 3, 7, 9, 2, '1-2', 'mean:1,max:4', 'meeting:2,lecture:1', 5),
])
def test_the_command_of_some_parameters_gives_these_parameters(wanted):
    assert wanted == parameters(command(wanted).partition(' ')[2])
