"""A node's storage server: ZEO with roles, commit gate, control socket and clean shutdown."""
