"""Switchover, failover, rejoin and the rest: planner, executor, journal."""
