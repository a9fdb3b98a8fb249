"""Fixtures of the data plane's tests (Python 2.7)."""
import pytest

from processes import Processes


@pytest.fixture
def processes(tmpdir):
    """Starts server processes that end with the test."""
    started = Processes(tmpdir)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope='session')
def htdocs(tmpdir_factory):
    """An HtdocsDir for Indico, shared so that style sheets are built once."""
    from indico_site import overlay_htdocs
    return overlay_htdocs(tmpdir_factory.mktemp('htdocs'))
