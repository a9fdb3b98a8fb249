"""What the storage server logs, and what it leaves out."""
import logging

from indico_zodbrepl.dataplane.server.log import RepeatFilter
from indico_zodbrepl.dataplane.zrs.repairs import UpstreamLog

from nodes import Node
from zeo_servers import open_client


class Lines(logging.Handler):
    """Collects what passes."""

    def __init__(self):
        logging.Handler.__init__(self)
        self.lines = []

    def emit(self, record):
        self.lines.append('%s %s' % (record.levelname, record.getMessage()))


def logger_into(lines, name):
    logger = logging.Logger(name)
    logger.addHandler(lines)
    return logger


def test_a_repeated_line_passes_once_a_minute_and_says_how_many_were_left_out():
    lines = Lines()
    now = [0]
    lines.addFilter(RepeatFilter('zc.zrs', 60, lambda: now[0]))
    logger = logger_into(lines, 'zc.zrs.primary')
    for second in range(0, 70, 10):
        now[0] = second
        logger.info('port %d: Connected', 40000 + second)

    assert ['INFO port 40000: Connected',
            'INFO port 40060: Connected (5 more like this before)'] == lines.lines


def test_other_lines_and_other_libraries_pass():
    lines = Lines()
    lines.addFilter(RepeatFilter('zc.zrs', 60, lambda: 0))
    zrs = logger_into(lines, 'zc.zrs.primary')
    zeo = logger_into(lines, 'ZEO')
    zrs.info('Connected')
    zrs.error('Connected')
    zrs.info('Disconnected')
    zeo.info('Connected')
    zeo.info('Connected')

    assert ['INFO Connected', 'ERROR Connected', 'INFO Disconnected',
            'INFO Connected', 'INFO Connected'] == lines.lines


def test_an_upstream_that_stays_away_is_one_warning():
    lines = Lines()
    log = UpstreamLog(logger_into(lines, 'test'), '127.0.0.1:8112', 1.0)
    for _ in range(100):
        log.unreachable('refused')
    log.following()
    log.lost('reset')
    for _ in range(100):
        log.unreachable('refused')

    assert [
        'WARNING cannot reach upstream 127.0.0.1:8112: refused; '
        'trying again every 1 s',
        'INFO following upstream 127.0.0.1:8112',
        'WARNING lost upstream 127.0.0.1:8112: reset; trying again every 1 s',
        'WARNING cannot reach upstream 127.0.0.1:8112: refused; '
        'trying again every 1 s'] == lines.lines


def test_an_upstream_that_turns_the_node_away_is_one_warning():
    lines = Lines()
    log = UpstreamLog(logger_into(lines, 'test'), 'up:1', 1.0)
    for _ in range(100):
        log.turned_away('closed')

    assert 1 == len(lines.lines)
    assert lines.lines[0].startswith('WARNING upstream up:1 ended')


def test_clients_that_are_told_it_is_read_only_leave_no_traceback(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    primary.start()
    secondary = Node(processes, tmpdir, 'b', upstream=primary)
    secondary.start()
    storage = open_client([secondary])
    try:
        assert storage.is_read_only()
    finally:
        storage.close()
    assert 'Traceback' not in secondary.process.output()
