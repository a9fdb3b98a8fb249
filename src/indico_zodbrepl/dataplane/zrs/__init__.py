"""The replication protocol of zc.zrs 3.1.0: its links, stream and repairs."""
