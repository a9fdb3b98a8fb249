"""Fixtures of the data plane's tests (Python 2.7)."""
import pytest
import zc.zrs.primary
import zc.zrs.secondary
import zc.zrs.sizedmessage

from processes import Processes

REPLACED = [  # by `links.install` and `repairs.apply`, for the whole process
    (zc.zrs.primary, 'Primary'), (zc.zrs.primary, 'PrimaryProducer'), (zc.zrs.primary, 'time'),
    (zc.zrs.secondary, 'Transaction'), (zc.zrs.secondary.Secondary, 'factoryClass'),
    (zc.zrs.sizedmessage, 'Stream')]


@pytest.fixture(autouse=True)
def original_zrs(monkeypatch):
    """Give the next test the classes of zc.zrs 3.1.0, whatever this one replaces."""
    for owner, name in REPLACED:
        monkeypatch.setattr(owner, name, getattr(owner, name))


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
    """An HtdocsDir for Indico, shared so that style sheets and templates are built once."""
    from indico_site import overlay_htdocs
    return overlay_htdocs(tmpdir_factory.mktemp('htdocs'))


@pytest.fixture(scope='session')
def founded(tmpdir_factory, htdocs):
    """Path of a Data.fs as the first run leaves it; it is for copies."""
    from indico_site import site_with_file
    site = site_with_file(None, tmpdir_factory.mktemp('founded'), htdocs)
    status, _, error = site.first_run()
    assert 0 == status, error
    return site.data


@pytest.fixture(scope='session')
def filled(tmpdir_factory, htdocs, founded):
    """As `founded`, with the events of make_events.py: the file's path, their paths below /indico."""
    from indico_site import site_with_file
    site = site_with_file(None, tmpdir_factory.mktemp('filled'), htdocs, founded)
    paths = site.make_events()
    return site.data, paths
