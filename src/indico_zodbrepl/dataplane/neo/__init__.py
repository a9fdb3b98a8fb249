"""NEO 1.12 under Indico: its client, its server programs, and the warden that watches a cluster.

NEO's own package is `neo` too: modules that import it say `absolute_import`.
"""
