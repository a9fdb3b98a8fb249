"""Benchmarks: has them made, keeps their results, and reads them again.

``results.read_all(cluster)`` is what pages and reports look at.
"""
