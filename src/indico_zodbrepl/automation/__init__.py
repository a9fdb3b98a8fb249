"""Automatic failover: the leader lease, the decisions, and the program on each host."""
