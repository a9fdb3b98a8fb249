"""One host: its nodes, state files, supervised programs and Python 2.7 programs; see interface."""
