"""NEO 1.12 under Indico: its client, its server programs, and the monitor of a cluster.

NEO's own package is also named `neo`: modules that import it need `absolute_import`.
"""
