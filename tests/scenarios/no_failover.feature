Feature: What needs no failover loses nothing

  @exhaustive
  Scenario: The primary is killed and supervisor starts it again
    Given a primary a and a secondary b
    And 2 writers and 1 reader at work
    When the server of node a is killed
    Then all clients succeed again
    And nodes a and b come to hold the same
    And nothing that was acknowledged is missing
    And nobody read what is not there
    And there was one writable primary at most at any moment

  @exhaustive
  Scenario: Everything is killed and started again
    Given a primary a and a secondary b
    And 2 writers and 1 reader at work
    When everything is killed at once, supervisord too
    And the cluster is brought up again
    Then all clients succeed again
    And nodes a and b come to hold the same
    And nothing that was acknowledged is missing
    And nobody read what is not there

  @exhaustive
  Scenario: The link between the nodes is cut for a while
    Given a primary a and a secondary b on the other side of a link
    And 2 writers and 1 reader at work
    When the link is cut for 2 seconds
    Then the writers succeed all the while
    And nodes a and b come to hold the same
    And nothing that was acknowledged is missing

  Scenario: A primary that is cut off takes no writes
    Given a primary a that has to have a follower, and a secondary b on the other side of a link
    And 2 writers and 1 reader at work
    When the link is cut
    Then node a comes to refuse writes, and the reader goes on
    When the link is mended
    Then all clients succeed again
    And nodes a and b come to hold the same
    And nothing that was acknowledged is missing

  @exhaustive
  Scenario: A relay is killed and supervisor starts it again
    Given a primary a, a relay b and a secondary c
    And 2 writers and 1 reader at work
    When the server of node b is killed
    Then the writers succeed all the while
    And nodes a, b and c come to hold the same
    And nothing that was acknowledged is missing

  Scenario: The secondary's disk is full for a while
    Given a primary a and a secondary b
    And 2 writers and 1 reader at work
    When the disk of node b is full for 2 seconds
    Then the writers succeed all the while
    And nodes a and b come to hold the same
    And nothing that was acknowledged is missing
