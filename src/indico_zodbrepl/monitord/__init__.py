"""The monitor process: it probes, remembers, reports, counts, and never acts on a server."""
