"""The suites of benchmarks, one module each, and what they need."""
