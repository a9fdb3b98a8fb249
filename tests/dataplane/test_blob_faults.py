"""What is acknowledged is whole on each node, and nothing else is there; see blob_faults.py."""
import pytest

from blob_faults import FAULTS, LOSES, run


@pytest.mark.parametrize('fault', FAULTS, ids=lambda fault: fault.__name__)
def test_uploads_are_whole_or_not_there_after(fault, processes, tmpdir):
    acknowledged, missing = run(fault, processes, tmpdir)
    assert acknowledged
    assert 0 == missing or fault in LOSES
