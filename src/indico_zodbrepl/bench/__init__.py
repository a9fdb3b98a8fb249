"""Benchmarks: run suites on storages, keep the results and read them again.

Pages and reports start with ``results.read_all(cluster)``.
"""
