"""What the NEO monitor decides; no cluster is needed for that."""
from indico_zodbrepl.dataplane.neo.policy import about_strays, decide, holds_everything, strays

HERE = frozenset(['m:1', 'm:2', 's:1', 's:2', 's:3'])


def state(rows, down=(), primary='m:1'):
    nodes = [{'type': 'master', 'address': each, 'id': 'M', 'state': 'RUNNING'}
             for each in ('m:1', 'm:2')]
    nodes += [{'type': 'storage', 'address': each, 'id': 'S',
               'state': 'DOWN' if each in down else 'RUNNING'}
              for each in ('s:1', 's:2', 's:3')]
    return {'nodes': nodes, 'primary': primary,
            'partitions': {'rows': [set(each) for each in rows]}}


TWICE = state([('s:1', 's:2'), ('s:2', 's:3'), ('s:1', 's:3')])


def kinds(state, silent, hung_after=10.0, here=HERE):
    actions, problems = decide(state, silent, hung_after, here)
    return [(each.kind, each.address) for each in actions], [each.address for each in problems]


def test_nothing_is_done_while_nobody_is_silent():
    assert ([], []) == kinds(TWICE, {})


def test_silence_that_is_short_is_waited_out():
    assert ([], []) == kinds(TWICE, {'s:1': 9.9})


def test_a_hung_storage_is_killed_when_the_others_hold_everything():
    assert ([('kill-storage', 's:1')], []) == kinds(TWICE, {'s:1': 10.0})


def test_a_hung_storage_that_alone_has_some_of_the_data_is_left_alone():
    once = state([('s:1',), ('s:2', 's:3')])
    assert ([], ['s:1']) == kinds(once, {'s:1': 60.0})
    assert 'no other storage' in decide(once, {'s:1': 60.0}, 10.0, HERE)[1][0].text


def test_of_two_hung_storages_neither_stands_in_for_the_other():
    assert ([], ['s:1', 's:2']) == kinds(TWICE, {'s:1': 60.0, 's:2': 60.0})


def test_a_storage_that_has_just_become_silent_does_not_stand_in_for_a_hung_one():
    assert ([], ['s:1']) == kinds(TWICE, {'s:1': 60.0, 's:2': 2.0})


def test_a_frozen_process_that_the_cluster_has_given_up_is_ended_so_that_it_comes_back():
    given_up = state([('s:2', 's:3')], down=['s:1'])
    assert ([('kill-process', 's:1')], []) == kinds(given_up, {'s:1': 60.0})
    assert ([], []) == kinds(given_up, {'s:1': 60.0}, here=frozenset())


def test_a_hung_primary_master_is_ended_so_that_another_is_elected():
    assert ([('kill-process', 'm:1')], []) == kinds(TWICE, {'m:1': 10.0})


def test_a_hung_master_on_another_host_is_reported_as_a_problem():
    actions, problems = decide(TWICE, {'m:1': 10.0}, 10.0, frozenset())
    assert ([], ['m:1']) == (actions, [each.address for each in problems])
    assert 'on another host' in problems[0].text


def test_a_storage_is_not_killed_by_way_of_a_primary_that_hangs_too():
    """It would not carry out the order, and who waits for the one may only seem silent."""
    assert ([('kill-process', 'm:1')], []) == kinds(TWICE, {'m:1': 60.0, 's:1': 60.0})


def test_a_time_of_zero_ends_nobody():
    assert ([], []) == kinds(TWICE, {'m:1': 999.0, 's:1': 999.0}, hung_after=0)


def test_nobody_is_ended_while_the_cluster_tells_nothing():
    assert ([], ['s:1']) == kinds(None, {'s:1': 999.0})


def test_a_cluster_without_a_partition_table_holds_nothing():
    assert not holds_everything(dict(TWICE, partitions=None), ())
    assert holds_everything(TWICE, ('s:3',))


def test_a_storage_that_does_not_come_to_a_cluster_that_waits_for_it_is_started_again():
    waiting = dict(TWICE, cluster_state='RECOVERING', nodes=[
        each for each in TWICE['nodes'] if each['address'] != 's:2'])
    assert {'s:2'} == strays(waiting, HERE)
    assert [] == about_strays({'s:2': 19.0}, 10.0)
    assert [('kill-process', 's:2')] == [
        (each.kind, each.address) for each in about_strays({'s:2': 20.0}, 10.0)]
    assert [] == about_strays({'s:2': 60.0}, 0)


def test_nobody_is_a_stray_of_a_cluster_that_runs_or_tells_nothing():
    without = [each for each in TWICE['nodes'] if each['address'] != 's:2']
    assert set() == strays(dict(TWICE, cluster_state='RUNNING', nodes=without), HERE)
    assert set() == strays(None, HERE)


def own(silent, here, hung_after=10.0):
    actions, problems = decide(TWICE, silent, hung_after, frozenset(here), several=True)
    return [(each.kind, each.address) for each in actions], [each.address for each in problems]


def test_on_several_hosts_each_monitor_ends_the_processes_of_its_host():
    assert ([('kill-storage', 's:1')], []) == own({'s:1': 10.0}, ['s:1', 'm:2'])
    assert ([('kill-process', 'm:2')], []) == own({'m:2': 10.0}, ['s:1', 'm:2'])
    assert ([], []) == own({'s:1': 60.0, 'm:1': 60.0}, ['s:2', 'm:2'])


def test_the_monitor_of_the_leader_s_host_ends_a_storage_whose_own_monitor_does_not():
    assert ([], []) == own({'s:1': 19.0}, ['m:1'])
    assert ([('kill-storage', 's:1')], []) == own({'s:1': 20.0, 'm:2': 20.0}, ['m:1'])
