"""What was acknowledged or seen survives the primary; see ack_faults.py."""
import pytest

from ack_faults import ASYNCHRONOUS, FAULTS, LEVELS, kill_both, run, stall_link

# What a follower only has in its memory is lost with it.
CASES = [(level, fault) for level in LEVELS for fault in FAULTS if (level, fault) != ('receive', kill_both)]


@pytest.mark.parametrize('level, fault', CASES, ids=lambda each: getattr(each, '__name__', each))
def test_nothing_acknowledged_or_seen_is_lost_with_the_primary(level, fault, processes, tmpdir):
    for number in range(2):
        found = run(level, fault, processes, tmpdir.ensure(str(number), dir=True))
        assert found.acknowledged
        assert (0, 0, []) == (found.missing, found.seen_lost, found.how)


def test_without_acknowledgements_a_stalled_link_loses_what_was_acknowledged(processes, tmpdir):
    assert any(run(ASYNCHRONOUS, stall_link, processes, tmpdir.ensure(str(number), dir=True)).missing
               for number in range(5))
