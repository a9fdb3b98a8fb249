Feature: Indico's users lose nothing silently

  @exhaustive
  Scenario: Users work while a host is lost, and while roles are switched
    Given Indico on a primary a and a secondary b on the other side of a link, with users at work
    When the link stalls while users save
    And the host of node a is lost and the link is cut
    And the operator fails over to b
    Then all clients succeed again
    When the host of node a comes back by itself
    Then node a refuses to start
    When the operator lets node a rejoin
    And the operator switches over to a
    Then all clients succeed again
    And nodes a and b come to hold the same
    And users were told either that it is saved or that it is not
    And whatever was acknowledged is there or is listed by its title
    And nobody read what is not there
    And there was one writable primary at most at any moment
