"""Tests of speed that run inside Indico, on a connection like that of a request.

The plugin's handlers are in `plugin/benchmarks.py`; `running.run` is what they call.
"""
