"""Hosts of a cluster of several: the agent, its client, and the router between them."""
