"""The etcd cluster that decides which node leads: client, keys, members, health."""
