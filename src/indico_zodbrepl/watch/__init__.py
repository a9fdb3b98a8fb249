"""The monitor as a program: it remembers, tells, counts, compares, and changes no server."""
