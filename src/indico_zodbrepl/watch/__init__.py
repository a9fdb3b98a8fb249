"""The monitor as a program of its own: history, events, hooks, metrics."""
