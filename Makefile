# All commands set everything up first when that is needed; see README.md.
# The trap lets a Ctrl-C reach the program alone, which then ends what it started.

.PHONY: demo test test-indico scenarios figures

demo:
	@trap : INT; ./bootstrap && bin/zodbrepl demo; code=$$?; [ $$code -eq 130 ] || exit $$code

test:
	@trap : INT; ./bootstrap && tests/run

# Faults against real clusters, with a table of what was lost, exported and shown.
scenarios:
	@trap : INT; ./bootstrap && bin/pytest tests/scenarios

# How long a failover and a switchover take, medians of five.
figures:
	@trap : INT; ./bootstrap && bin/control-python tests/scenarios/figures.py

test-indico:
	@trap : INT; ./bootstrap && tests/run indico
