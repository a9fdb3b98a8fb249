"""What is measured in which order, and how it is told."""
import json
import os
import signal

import py

from figure_tables import Figures, Measured, median, time_left
from figures import NAIVE, WAYS, works
from homes import Result
from processes import Process, wait_for

FIGURES = py.path.local(__file__).dirpath().join('figures.py')


def test_ways_take_turns_and_each_round_begins_with_another():
    assert [(0, 'naive'), (0, 'model'), (0, 'store'), (0, 'file'),
            (1, 'model'), (1, 'store'), (1, 'file')] == [
                (number, way.name) for number, _, way in works(WAYS, (9,), 2)]


def test_the_naive_way_with_most_conferences_is_measured_once():
    assert [(0, 5), (0, 9), (1, 5), (2, 5)] == [
        (number, size) for number, size, way in works(WAYS, (5, 9), 3) if way is NAIVE]


def test_the_middle_one_counts():
    assert [2, 2.5, 7] == [median([3, 1, 2]), median([1, 2, 3, 4]), median([7])]


def test_time_left_follows_what_was_slower_than_expected():
    assert ', about 30 s left' == time_left([], [10, 20], 0)
    assert ', about 60 s left' == time_left([10], [20], 30)
    assert ', about 10 min left' == time_left([10], [300], 20)


def test_a_table_tells_all_in_times_the_first_way():
    figures = Figures(['naive', 'file'])
    for rate in 900, 1100, 2000:
        figures.keep('file', 50, Measured(rate, 40000, 150.4, 0.001))
    figures.keep('naive', 50, Measured(20.0, 64000, 99.6, 0.05))
    figures.keep('file', 9, Measured(99.0, 40000.4, 150, 0.001))
    assert [
        '| 9 | file | 99.0 |  | 40000 | 1.00 ms | 150 MiB |',
        '| 50 | naive | 20.0 | 1.0 | 64000 | 50.00 ms | 100 MiB |',
        '| 50 | file | 1100 | 55.0 | 40000 | 1.00 ms | 150 MiB |',
    ] == figures.table().splitlines()[2:]
    assert [9, 50, 50, 50, 50] == [each['conferences'] for each in figures.as_list()]


def test_an_interrupted_measurement_keeps_what_was_measured(tmpdir):
    process = Process(['python', str(FIGURES), '--sizes', '3', '4000', '--ways', 'model'],
                      tmpdir.join('log'), {'ZODBREPL_HOME': str(tmpdir)})
    try:
        wait_for(lambda: '4000 conferences' in process.output() or not process.is_running(),
                 'the second measurement')
        os.kill(process.pid, signal.SIGINT)
        result = Result(process)
        assert 130 == result.code, result.text
        assert '| 3 | model | ' in result.text
        kept, = tmpdir.join('var', 'figures').listdir()
        assert [3] == [each['conferences'] for each in json.loads(kept.read())['measured']]
    finally:
        process.kill()
