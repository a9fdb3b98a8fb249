"""Requests in each other's way: how they wait, and that each gets its turn."""
import pytest

from trees import since

WAITED_OUT = '0019-conflicts-are-waited-out'
TURNS = '0020-turns-after-conflicts'
LONG = '0034-long-requests-are-tried-again'
SUCCESS = {'page': 303, 'rpc': 200, 'api': 200}


def views(site, tree):
    """Return what happened to the view before each pause of a write, by surface."""
    answers = site.ask(tree, 'views', site.ids['key'], *sorted(SUCCESS))
    assert SUCCESS == {name: answer['status'] for name, answer in answers.items()}
    return {name: answer['before_pauses'] for name, answer in answers.items()}


def test_no_view_of_the_storage_is_kept_during_a_pause(trees, site):
    """A relational database would keep a transaction open. The turn takes the place of the first pause."""
    assert dict.fromkeys(SUCCESS, ['released'] * 2) == views(site, trees.full())


@pytest.mark.exhaustive
def test_views_of_the_storage_were_kept_during_a_pause(trees, new_site):
    assert dict.fromkeys(SUCCESS, ['polled'] * 3) == views(new_site(), trees.before(WAITED_OUT))
    assert dict.fromkeys(SUCCESS, ['released'] * 3) == views(new_site(), trees.through(WAITED_OUT))


@since(WAITED_OUT)
def test_how_often_and_after_which_pauses_a_request_is_tried(tree, site):
    """Pauses in seconds, at their longest; None: the error is final."""
    decided = {name: [pause and round(pause, 2) for pause in pauses]
               for name, pauses in site.ask(tree, 'retries').items()}
    decided.pop('conflicts of long tries')
    assert {
        'conflicts': [0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1, None],
        'read conflict': [0.05],
        'missing object': [0.05],
        'conflict after a long time': [0.05, None],
        'missing objects': [0.05] * 3,
        'read-only': [None],
        'disconnected soon': [0.02, 0.04],
        'disconnected for long': [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5],
        'disconnected late': [None],
        'disconnected, then read-only': [0.02, None],
    } == decided


@pytest.mark.exhaustive
def test_pauses_were_short_and_conflicts_had_no_end(trees, site):
    decided = site.ask(trees.before(WAITED_OUT), 'retries')
    assert 0.45 == round(decided['conflicts'][8], 2)
    assert None not in decided['conflict after a long time']


@since(LONG)
def test_a_request_that_takes_long_is_tried_again_after_a_conflict(tree, site):
    """Each try takes 25 s: so the fourth one, which ends after 100 s, is the last."""
    pauses = site.ask(tree, 'retries')['conflicts of long tries']
    assert [True, True, True, False] == [pause is not None for pause in pauses]


@pytest.mark.exhaustive
def test_a_request_that_took_long_was_not_tried_again(trees, site):
    assert site.ask(trees.before(LONG), 'retries')['conflicts of long tries'][0] is None


def test_the_scheduler_pauses_between_its_tries(trees, site):
    """The turn takes the place of the first pause."""
    answer, = site.ask(trees.full(), 'operation', 3)
    assert 2 == len(answer['pauses'])
    assert ('done', True, 4) == (answer['result'], answer['saved'], answer['calls'])


@pytest.mark.exhaustive
def test_the_scheduler_did_not_pause_between_its_tries(trees, new_site):
    (before,), (after,) = [new_site().ask(tree, 'operation', 3)
                           for tree in (trees.before(WAITED_OUT), trees.through(WAITED_OUT))]
    assert (0, 3) == (len(before['pauses']), len(after['pauses']))
    assert ('done', True, 4) == (after['result'], after['saved'], after['calls'])


def meetings(site, tree, second):
    """Return what happened while a second request met a write, by the surface of the write."""
    answers = site.ask(tree, 'turns', site.ids['key'], *['%s:%s' % (name, second) for name in sorted(SUCCESS)])
    return {case.split(':')[0]: answer for case, answer in answers.items()}


@since(TURNS)
def test_who_met_a_conflict_is_let_pass(tree, site):
    found = meetings(site, tree, 'post')
    for surface, status in SUCCESS.items():
        answer = found[surface]
        assert ['second waits', 'first saved'] == answer['order'][:2]
        assert 'second done' in answer['order']
        assert (status, 2, False) == (answer['status'], answer['tries'], answer['taken'])


@pytest.mark.exhaustive
def test_who_met_a_conflict_was_overtaken(trees, site):
    found = meetings(site, trees.before(TURNS), 'post')
    assert dict.fromkeys(SUCCESS, 'second done') == {
        surface: answer['order'][0] for surface, answer in found.items()}


def test_who_reads_waits_for_nobody(trees, site):
    found = meetings(site, trees.full(), '/category/1/')
    assert dict.fromkeys(SUCCESS, ['second done', 'first saved']) == {
        surface: answer['order'][:2] for surface, answer in found.items()}


def test_one_process_has_the_turn_and_loses_it_with_its_life(trees, site):
    """Without a file to lock there are no turns, but requests go on."""
    found = site.ask(trees.full(), 'taking')
    assert (True, False) == (found['alone'], found['again'])
    assert not found['while another has it']
    assert 0.3 <= found['let pass for']
    assert found['after its death'] and found['while a fork lives']
    assert not found['without a file']
    with open(site.path('indico.log')) as log:
        assert 'No turns after conflicts' in log.read()


def test_a_turn_ends_with_its_request_however_that_ends(trees, site):
    cases = ['ConflictError:0:99', 'ConflictError:0:1', 'ValueError:0:1', 'ConflictError:0:1']
    lost, after_it, failed, at_last = site.ask(
        trees.full(), 'write', site.ids['key'], *['page:' + case for case in cases])
    assert (503, 500) == (lost['status'], failed['status'])
    for answer in (after_it, at_last):
        assert (303, 2) == (answer['status'], answer['tries'])
        assert answer['seconds'] < 60
