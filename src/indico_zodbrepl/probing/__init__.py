"""Probes of servers and Indico instances over the network, each with a deadline."""
