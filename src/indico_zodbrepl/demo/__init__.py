"""The demo: a cluster with a real Indico, filled with conferences."""
