Feature: After a failover everything that was acknowledged is there or accounted for

  @exhaustive
  Scenario: The primary's server dies for good under load
    Given a primary a and a secondary b
    And 2 writers and 1 reader at work
    When the server of node a dies for good
    And the operator fails over to b
    Then all clients succeed again
    When the operator lets node a rejoin
    Then nodes a and b come to hold the same
    And whatever was acknowledged is there or was exported
    And nobody read what is not there
    And there was one writable primary at most at any moment

  @exhaustive
  Scenario: The primary freezes
    Given a primary a and a secondary b
    And 2 writers and 1 reader at work
    When the server of node a freezes
    And the operator fails over to b
    Then all clients succeed again
    When the operator lets node a rejoin
    Then nodes a and b come to hold the same
    And whatever was acknowledged is there or was exported
    And nobody read what is not there
    And there was one writable primary at most at any moment

  Scenario: A lagging secondary takes over from a host that is lost, and that comes back by itself
    Given a primary a and a secondary b on the other side of a link
    And 2 writers and 1 reader at work
    And a reader with a cache on disk
    When the link stalls and each writer commits 30 times more
    And the reader with the cache has seen that and is killed
    And the host of node a is lost and the link is cut
    And the operator fails over to b
    Then the journal tells that transactions were lost
    And all clients succeed again
    When the reader with the cache starts again
    And the host of node a comes back by itself
    Then node a refuses to start
    And all clients succeed again
    When the operator lets node a rejoin
    Then nodes a and b come to hold the same
    And transactions are missing that the reader with the cache had seen
    And whatever was acknowledged is there or was exported
    And nobody read what is not there
    And there was one writable primary at most at any moment

  Scenario: The primary's disk never returns
    Given a primary a and a secondary b on the other side of a link
    And 2 writers and 1 reader at work
    When the link stalls and each writer commits 30 times more
    And the host of node a is lost and the link is cut
    And the operator fails over to b
    Then the journal tells after which transaction everything is out of reach
    And all clients succeed again
    When the operator clones the primary to node a
    Then nodes a and b come to hold the same
    And nothing is missing but what the journal tells
    And nobody read what is not there
    And there was one writable primary at most at any moment

  @exhaustive
  Scenario: Two failovers in a row
    Given a primary a and secondaries b and c
    And 2 writers and 1 reader at work
    When the host of node a is lost
    And the operator fails over to b
    Then all clients succeed again
    When the host of node b is lost
    And the operator fails over to c
    Then all clients succeed again
    When the host of node a comes back by itself
    Then node a refuses to start
    When the host of node b comes back by itself
    Then node b refuses to start
    When the operator lets node a rejoin
    And the operator lets node b rejoin
    Then nodes a, b and c come to hold the same
    And whatever was acknowledged is there or was exported
    And nobody read what is not there
    And there was one writable primary at most at any moment

  @exhaustive
  Scenario: The control plane is killed in the middle of a failover
    Given a primary a and a secondary b
    And 2 writers and 1 reader at work
    When the server of node a dies for good
    And a failover to b is killed at its point of no return
    And the operator resumes it
    Then all clients succeed again
    When the operator lets node a rejoin
    Then nodes a and b come to hold the same
    And whatever was acknowledged is there or was exported
    And nobody read what is not there
    And there was one writable primary at most at any moment

  Scenario: A relay is lost for good
    Given a primary a, a relay b and a secondary c
    And 2 writers and 1 reader at work
    When the host of node b is lost
    And the operator lets node c follow a
    Then the writers succeed all the while
    And nodes a and c come to hold the same
    And nothing that was acknowledged is missing
    And there was one writable primary at most at any moment

  @exhaustive
  Scenario: Switched over and back under load
    Given a primary a and a secondary b
    And 2 writers and 1 reader at work
    When the operator switches over to b
    Then all clients succeed again
    When the operator switches over to a
    Then all clients succeed again
    And nodes a and b come to hold the same
    And nothing that was acknowledged is missing
    And nobody read what is not there
    And there was one writable primary at most at any moment
