"""The demo: a cluster with real Indico, filled, and shown to replicate."""
