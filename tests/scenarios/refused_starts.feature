Feature: A node that ought not to serve does not

  Scenario: The primary's disk is gone when its server starts
    Given a primary a and a secondary b
    And 2 writers and 1 reader at work
    When the disk of node a disappears and its server is killed
    Then node a refuses to start
    And the reader succeeds again
    When the disk of node a is back and supervisor starts its server
    Then all clients succeed again
    And nodes a and b come to hold the same
    And nothing that was acknowledged is missing
    And nobody read what is not there
