"""Instances on different hosts: they share the database, and no folder."""
import pytest

from trees import since

SESSIONS = '0025-sessions-in-the-database'
TOKENS = '0026-tokens-in-the-database'
CACHES = '0027-caches-of-one-state-of-the-database'
FILES = '0028-cached-files-of-one-state-of-the-database'


@since(SESSIONS)
def test_a_session_is_valid_on_another_host(tree, site):
    cookie = site.ask(tree, 'hosts', 'here', 'log_in')
    assert site.ask(tree, 'hosts', 'there', 'whose_page', cookie)


@pytest.mark.exhaustive
def test_a_session_was_not_valid_on_another_host(trees, site):
    tree = trees.before(SESSIONS)
    cookie = site.ask(tree, 'hosts', 'here', 'log_in')
    assert site.ask(tree, 'hosts', 'here', 'whose_page', cookie)
    assert not site.ask(tree, 'hosts', 'there', 'whose_page', cookie)


@since(TOKENS)
def test_a_mailed_link_is_valid_on_another_host_and_once(tree, site):
    link = site.ask(tree, 'hosts', 'here', 'ask_for_password')
    assert site.ask(tree, 'hosts', 'there', 'open_link', link)
    assert [False, 303] == site.ask(tree, 'hosts', 'there', 'set_password', link)
    assert not site.ask(tree, 'hosts', 'here', 'open_link', link)


@pytest.mark.exhaustive
def test_a_mailed_link_was_not_valid_on_another_host(trees, site):
    tree = trees.before(TOKENS)
    link = site.ask(tree, 'hosts', 'here', 'ask_for_password')
    assert site.ask(tree, 'hosts', 'here', 'open_link', link)
    assert not site.ask(tree, 'hosts', 'there', 'open_link', link)


def seen_after_changes(tree, site):
    """Return what one host shows before, and after each of two changes on another one."""
    seen = [site.ask(tree, 'hosts', 'here', 'look')]
    for number in range(2):
        site.ask(tree, 'hosts', 'there', 'change', number)
        seen.append(site.ask(tree, 'hosts', 'here', 'look'))
    return seen


@since(CACHES)
def test_what_is_cached_is_as_it_was_changed_on_another_host(tree, site):
    assert [
        {'member': False, 'talks': [], 'api': 'An event'},
        {'member': True, 'talks': ['Talk 0'], 'api': 'Title 0'},
        {'member': False, 'talks': ['Talk 0', 'Talk 1'], 'api': 'Title 1'},
    ] == [dict(each, talks=sorted(each['talks'])) for each in seen_after_changes(tree, site)]


@pytest.mark.exhaustive
def test_what_was_cached_was_not_as_it_was_changed_on_another_host(trees, site):
    last = seen_after_changes(trees.before(CACHES), site)[-1]
    assert (True, [], 'An event') == (last['member'], last['talks'], last['api'])


@since(FILES)
def test_the_settings_of_scripts_are_as_they_were_changed_on_another_host(tree, site):
    assert ['false', 304] == site.ask(tree, 'hosts', 'here', 'room_booking')
    site.ask(tree, 'hosts', 'there', 'activate_room_booking')
    assert ['true', 304] == site.ask(tree, 'hosts', 'here', 'room_booking')


@pytest.mark.exhaustive
def test_the_settings_of_scripts_were_not_as_they_were_changed_on_another_host(trees, site):
    tree = trees.before(FILES)
    site.ask(tree, 'hosts', 'here', 'room_booking')
    site.ask(tree, 'hosts', 'there', 'activate_room_booking')
    assert 'false' == site.ask(tree, 'hosts', 'here', 'room_booking')[0]


@since(FILES)
def test_a_cached_book_of_abstracts_belongs_to_one_state_of_its_event(tree, site):
    name = site.ask(tree, 'hosts', 'here', 'book')
    assert name == site.ask(tree, 'hosts', 'there', 'book')
    site.ask(tree, 'hosts', 'there', 'change', 0)
    assert name != site.ask(tree, 'hosts', 'here', 'book')


@pytest.fixture(scope='module')
def stored(trees, new_site):
    return new_site().ask(trees.full(), 'sessions')


def test_changes_of_a_session_are_merged(stored):
    assert {'kept': 5, 'both': 2, 'set': [2, 3, 4], 'dict': {'a': 2, 'b': {'c': 9, 'd': 1}},
            'new': {'x': 1, 'y': 1}, 'other': 1} == stored['merged']


def test_requests_that_save_one_session_at_the_same_time_lose_nothing_and_none_fails(stored):
    assert range(12) + ['user'] == stored['same time']


def test_a_session_that_was_ended_meanwhile_stays_so(stored):
    assert [False, None] == stored['ended']


def test_what_has_expired_is_removed_while_others_are_stored(stored):
    first, second, third = stored['expiry']
    assert 300 == first
    assert second < 400 and third < 400


def test_a_lifetime_begins_again_when_half_of_it_has_passed(stored):
    day = 86400
    assert [day, day, 1.75 * day, None] == stored['lifetime']


def test_the_data_does_not_disclose_ids_of_sessions(stored):
    assert not stored['secret in the file']
