"""The demo on several hosts, which are namespaces of this machine.

One process holds the lab and waits for Ctrl-C.  Commands in other terminals ask it for faults
through a socket.
"""
