"""Trees of Indico and a filled site, made once a session."""
import subprocess

import pytest

import trees as trees_module
from sites import Site, copy_of, some_free_port


@pytest.fixture(scope='session')
def trees(tmpdir_factory):
    folder = tmpdir_factory.mktemp('trees')
    yield trees_module.Trees(str(folder))
    subprocess.check_call(['rm', '-rf', str(folder)])


@pytest.fixture
def tree(trees, request):
    """The tree that `since` names."""
    return trees.full() if request.param == 'whole series' else trees.through(request.param)


@pytest.fixture(scope='session')
def template(trees, tmpdir_factory):
    """A site with an administrator, a category, an event and an API key; not for changes."""
    site = Site(tmpdir_factory.mktemp('template'))
    site.ids = site.ask(trees.full(), 'firstrun')
    return site


@pytest.fixture(scope='session')
def new_site(template, tmpdir_factory):
    return lambda: copy_of(template, tmpdir_factory)


@pytest.fixture
def site(new_site):
    return new_site()


@pytest.fixture
def free_port():
    return some_free_port()
