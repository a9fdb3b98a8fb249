"""Uploaded files: in the database, whole, and found by the next request."""
import pytest

from trees import since

DATABASE = '0029-uploaded-files-in-the-database'
WHOLE = '0030-content-that-is-whole-or-unavailable'
PIECES = '0031-uploads-are-copied-in-pieces'
LATER = '0032-uploads-for-a-later-request'


@pytest.fixture
def site(new_site):
    site = new_site()
    site.use_file(blobs=True)
    return site


@since(DATABASE)
def test_a_new_file_is_in_the_database(tree, site):
    assert {'in archive': 0, 'sent': True} == site.ask(tree, 'uploads', 'store')


@pytest.mark.exhaustive
def test_a_new_file_was_in_a_folder(trees, site):
    assert {'in archive': 1, 'sent': True} == site.ask(trees.before(DATABASE), 'uploads', 'store')


@since(WHOLE)
def test_a_missing_file_is_answered_503(tree, site):
    assert [503, '5'] == site.ask(tree, 'uploads', 'lose')


@pytest.mark.exhaustive
def test_a_missing_file_was_answered_500(trees, site):
    assert [500, None] == site.ask(trees.before(WHOLE), 'uploads', 'lose')


@since(WHOLE)
def test_a_path_has_the_name_of_its_file_for_the_time_of_a_transaction(tree, site):
    assert ['logo.gif', True, False] == site.ask(tree, 'uploads', 'path')


@pytest.mark.exhaustive
def test_a_path_was_that_of_the_storage(trees, site):
    name, found, remains = site.ask(trees.before(WHOLE), 'uploads', 'path')
    assert (True, True, True) == (name.endswith('.blob'), found, remains)


@since(PIECES)
def test_a_file_is_whole_after_a_conflict_and_nothing_temporary_is_left(tree, site):
    assert [True, 0] == site.ask(tree, 'uploads', 'conflict')


@pytest.mark.exhaustive
def test_a_file_was_empty_after_a_conflict_and_temporary_files_were_left(trees, site):
    assert [False, 2] == site.ask(trees.before(PIECES), 'uploads', 'conflict')


@since(LATER)
def test_a_background_is_found_on_another_host_before_its_template_is_saved(tree, site):
    cookie = site.ask(tree, 'hosts', 'here', 'log_in')
    assert site.ask(tree, 'hosts', 'here', 'upload_background', cookie)
    assert 'a background' == site.ask(tree, 'hosts', 'there', 'show_background', cookie)


@pytest.mark.exhaustive
def test_a_background_was_not_found_on_another_host(trees, site):
    tree = trees.before(LATER)
    cookie = site.ask(tree, 'hosts', 'here', 'log_in')
    assert site.ask(tree, 'hosts', 'here', 'upload_background', cookie)
    assert 'a background' == site.ask(tree, 'hosts', 'here', 'show_background', cookie)
    assert 'a background' != site.ask(tree, 'hosts', 'there', 'show_background', cookie)
