Feature: Other storages keep or account for what was acknowledged

  @exhaustive
  Scenario: PostgreSQL's primary freezes before its secondary has everything
    Given PostgreSQL with a primary a and a secondary b
    And 2 writers and 1 reader at work
    When node a sends nothing more and each writer commits 15 times more
    And the server of node a freezes
    And the operator fails over to b
    Then all clients succeed again
    When the operator lets node a rejoin
    Then nodes a and b come to hold the same
    And transactions are missing
    And whatever was acknowledged is there or was exported
    And nobody read what is not there
    And there was one writable primary at most at any moment

  @exhaustive
  Scenario: A storage of NEO hangs
    Given NEO with a master m, storages s1 and s2 of one copy each, and the NEO monitor w
    And 2 writers and 1 reader at work
    When storage s1 hangs
    Then the NEO monitor kills storage s1 and supervisor starts it again
    And all clients succeed again
    And status comes to say that all is well
    And nothing that was acknowledged is missing
    And nobody read what is not there
