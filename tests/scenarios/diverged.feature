Feature: A history that diverged is found and cured

  @exhaustive
  Scenario: An old primary was merged silently by stock zc.zrs
    Given a primary a and a secondary b
    And 1 writer and 1 reader at work
    When the cluster is down, and has gone through an unguarded failover from a to b and back
    Then the data files of a and b end with the same transaction
    And the cluster does not come up, as node a refuses to start
    And status tells that node a has diverged
    When the operator lets node a rejoin
    Then nodes a and b come to hold the same
    And what only node a had was exported
    And nobody read what is not there
