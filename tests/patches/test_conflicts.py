"""Requests in each other's way: how they wait, and that each gets its turn."""
import pytest

WAITED_OUT = '0019-conflicts-are-waited-out'
TURNS = '0020-turns-after-conflicts'


@pytest.mark.parametrize('surface', ['page', 'rpc', 'api'])
def test_no_view_of_the_storage_is_kept_during_a_pause(trees, new_site, surface):
    """A relational database would keep a transaction open."""
    before, after = [
        site.ask(tree, 'views', surface, site.ids['key'], 3)
        for site, tree in [(new_site(), tree) for tree in trees.without_and_with(WAITED_OUT)]]
    assert ['polled'] * 3 == before['before_pauses']
    assert ['released'] * 3 == after['before_pauses']
    assert before['status'] == after['status']


def test_with_all_patches_no_view_is_kept_either(trees, site):
    answer = site.ask(trees.full(), 'views', 'page', site.ids['key'], 3)
    assert ['released'] * 2 == answer['before_pauses']  # the turn takes the place of the first


def test_pauses_become_longer_and_conflicts_have_an_end(trees, new_site):
    before, after = [new_site().ask(tree, 'retries') for tree in trees.without_and_with(WAITED_OUT)]
    assert 0.45 == round(before['conflicts'][8], 2)
    assert [0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1] == [round(pause, 2) for pause in after['conflicts'][:-1]]
    assert after['conflicts'][-1] is None
    assert ([0.05], [None]) == (before['conflict after a long time'], after['conflict after a long time'])
    assert [0.05] * 3 == after['missing objects']


def test_the_scheduler_pauses_between_its_tries(trees, new_site):
    before, after = [new_site().ask(tree, 'operation', 3) for tree in trees.without_and_with(WAITED_OUT)]
    assert [] == before['pauses']
    assert 3 == len(after['pauses'])
    assert ('done', True, 4) == (after['result'], after['saved'], after['calls'])


@pytest.mark.parametrize('surface, status', [('page', 303), ('rpc', 200), ('api', 200)])
def test_who_met_a_conflict_is_let_pass(trees, new_site, surface, status):
    before, after = [
        site.ask(tree, 'turns', surface, site.ids['key'], 'post')
        for site, tree in [(new_site(), tree) for tree in trees.without_and_with(TURNS)]]
    assert 'second done' == before['order'][0]
    assert ['second waits', 'first saved'] == after['order'][:2]
    assert 'second done' in after['order']
    assert (status, 2, False) == (after['status'], after['tries'], after['taken'])


def test_who_reads_waits_for_nobody(trees, site):
    answer = site.ask(trees.full(), 'turns', 'page', site.ids['key'], '/category/1/')
    assert ['second done', 'first saved'] == answer['order']


def test_one_process_has_the_turn_and_loses_it_with_its_life(trees, site):
    found = site.ask(trees.full(), 'taking')
    assert (True, False) == (found['alone'], found['again'])
    assert not found['while another has it']
    assert 0.3 <= found['let pass for']
    assert found['after its death'] and found['while a fork lives']


def test_without_a_file_to_lock_there_are_no_turns_but_requests_go_on(trees, site):
    assert not site.ask(trees.full(), 'taking')['without a file']
    with open(site.path('indico.log')) as log:
        assert 'No turns after conflicts' in log.read()


@pytest.mark.parametrize('case, status', [('ConflictError:0:99', 503), ('ValueError:0:1', 500)])
def test_a_turn_ends_with_its_request_however_that_ends(trees, site, case, status):
    first, second = site.ask(trees.full(), 'write', 'page', site.ids['key'], case, 'ConflictError:0:1')
    assert status == first['status']
    assert (303, 2) == (second['status'], second['tries'])
    assert second['seconds'] < 60
