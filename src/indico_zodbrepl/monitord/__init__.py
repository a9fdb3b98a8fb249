"""The monitor process: it probes, records, reports and counts, but never changes a server."""
