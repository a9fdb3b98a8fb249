"""The monitor as a program: it remembers, tells what changes, counts, and changes nothing."""
