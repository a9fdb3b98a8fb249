# Both commands set everything up first when that is needed; see README.md.
# The trap lets a Ctrl-C reach the program alone, which then ends what it started.

.PHONY: demo test test-indico

demo:
	@trap : INT; ./bootstrap && bin/zodbrepl demo; code=$$?; [ $$code -eq 130 ] || exit $$code

test:
	@trap : INT; ./bootstrap && tests/run

test-indico:
	@trap : INT; ./bootstrap && tests/run indico
