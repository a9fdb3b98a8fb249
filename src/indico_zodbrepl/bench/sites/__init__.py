"""Scratch clusters for benchmarks: their shapes, start and removal, and programs on them."""
