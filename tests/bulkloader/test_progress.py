"""Progress on a terminal is one line that changes, in a log a line now and then."""
import StringIO

from bulkloader.progress import LOG_INTERVAL, Progress, amount_of_bytes, duration, line


class Stream(StringIO.StringIO):
    def __init__(self, terminal):
        StringIO.StringIO.__init__(self)
        self.terminal = terminal

    def isatty(self):
        return self.terminal


class Clock(object):
    now = 1000.0

    def __call__(self):
        return self.now


def progress(terminal, already=0, size=None):
    stream, clock = Stream(terminal), Clock()
    return Progress(stream, 400, already, size, clock), stream, clock


def test_durations_are_short_words():
    assert ['0 s', '59 s', '1 min 00 s', '3 min 05 s', '2 h 07 min'] == [
        duration(seconds) for seconds in (0.2, 59.4, 60, 185, 7655)]


def test_a_line_has_items_rate_and_time_left():
    assert '100 of 400 conferences (25 %), 50.0 conferences/s, 6 s left' == line(100, 400, 100, 2)


def test_the_rate_is_that_of_this_sitting():
    assert '300 of 400 conferences (75 %), 50.0 conferences/s, 2 s left' == line(300, 400, 100, 2)


def test_a_finished_line_has_no_time_left():
    assert '400 of 400 conferences (100 %), 200.0 conferences/s' == line(400, 400, 400, 2)


def test_bytes_are_short_words():
    assert ['0.0 MiB', '1.5 MiB', '1023.0 MiB', '1.0 GiB', '150.2 GiB'] == [
        amount_of_bytes(count) for count in (0, 3 << 19, 1023 << 20, 1 << 30, 161276045722)]


def test_a_line_tells_what_was_written_where_that_is_known():
    assert ('100 of 400 conferences (25 %), 50.0 conferences/s, 6 s left, 6.0 MiB written'
            == line(100, 400, 100, 2, 6 << 20))


def test_what_was_written_is_the_growth_of_the_database():
    sizes = [7 << 20, 10 << 20]
    reporter, stream, clock = progress(terminal=False, size=lambda: sizes.pop(0))
    clock.now += 1
    reporter.report(400)
    assert stream.getvalue().endswith(' conferences/s, 3.0 MiB written\n')


def test_a_log_gets_a_line_every_few_seconds():
    reporter, stream, clock = progress(terminal=False)
    for step in range(1, 21):
        clock.now += LOG_INTERVAL / 4
        reporter.report(step)
    reporter.finish()
    assert ['4', '8', '12', '16', '20'] == [
        text.split()[0] for text in stream.getvalue().splitlines()]


def test_a_terminal_gets_one_line_that_is_refreshed():
    reporter, stream, clock = progress(terminal=True)
    for done in (100, 200):
        clock.now += 1
        reporter.report(done)
    reporter.finish()
    assert ('\r100 of 400 conferences (25 %), 100.0 conferences/s, 3 s left\x1b[K'
            '\r200 of 400 conferences (50 %), 100.0 conferences/s, 2 s left\x1b[K\n'
            == stream.getvalue())


def test_the_end_is_always_reported():
    reporter, stream, clock = progress(terminal=False, already=300)
    clock.now += 1
    reporter.report(400)
    assert '400 of 400 conferences (100 %), 100.0 conferences/s\n' == stream.getvalue()
