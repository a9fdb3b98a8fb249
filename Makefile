# All commands set everything up first when that is needed; see README.md.
# The trap lets a Ctrl-C reach the program alone, which then ends what it started.

.PHONY: demo demo-hosts test test-chaos test-rest test-all test-indico scenarios faults chaos figures storage-figures size-figures commit-figures control-figures network-figures load-figures page-figures history-figures

demo:
	@trap : INT; ./bootstrap && bin/zodbrepl demo; code=$$?; [ $$code -eq 130 ] || exit $$code

demo-hosts:
	@trap : INT; ./bootstrap && bin/zodbrepl demo-hosts; code=$$?; [ $$code -eq 130 ] || exit $$code

# Each behaviour once; 50 minutes on two cores, and up to 80 on slow ones.
test:
	@trap : INT; ./bootstrap && tests/run

# Three minutes of random faults on three hosts for each family of storages; about 12 minutes.
test-chaos:
	@trap : INT; ./bootstrap && tests/run --exhaustive chaos

# Operations killed at every step, slow tests on several hosts, and repeats of what `make test`
# covers, in all suites or SUITES.
test-rest:
	@trap : INT; ./bootstrap && tests/run --exhaustive $(or $(SUITES),unit integration dataplane \
		scenarios base bulkloader patches hosts)

test-all: test test-chaos test-rest

# Faults against real clusters, with a table of what was lost, exported and shown.
scenarios:
	@trap : INT; ./bootstrap && bin/pytest tests/scenarios -m ""

# 30 minutes of random faults on three nodes; each acknowledged key is accounted for after each.
faults:
	@trap : INT; ./bootstrap && bin/control-python tests/scenarios/random_faults.py --minutes 30 $(if $(SEED),--seed $(SEED))

# Random faults on three hosts for MINUTES, and a judgement of what clients saw.
chaos:
	@trap : INT; ./bootstrap && bin/control-python tests/chaos/chaos.py --minutes $(or $(MINUTES),3) \
		--backend $(or $(BACKEND),zrs) --synchronous $(or $(SYNCHRONOUS),1) \
		$(if $(SEED),--seed $(SEED)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(INTO),--into $(INTO))

# How long failovers, switchovers, comparisons of data files and clones take, medians of five.
figures:
	@trap : INT; ./bootstrap && bin/control-python tests/scenarios/figures.py

# What a dead server costs each storage.
storage-figures:
	@trap : INT; ./bootstrap && bin/control-python tests/base/figures.py

# What the size of a database costs each operation; takes half an hour, and 20 GiB of the disk.
size-figures:
	@trap : INT; ./bootstrap && bin/control-python tests/base/sizes.py --into var/figures/sizes.jsonl

# Where the time of a commit goes with 1 to 16 writers; takes five minutes.
commit-figures:
	@trap : INT; ./bootstrap && bin/control-python tests/base/commit_times.py --into var/figures/commits.jsonl

# What replication costs beside stock ZEO and zc.zrs, and primaries alone; takes fifty minutes.
control-figures:
	@trap : INT; ./bootstrap && bin/control-python tests/base/controls.py --into var/figures/controls.jsonl

# What a slow or lossy network between hosts costs commits; takes forty minutes.
network-figures:
	@trap : INT; ./bootstrap && bin/control-python tests/hosts/network_figures.py --into var/figures/network.jsonl

# How fast conferences are loaded, by Indico's own calls one by one, in batches, and in bulk.
load-figures:
	@trap : INT; ./bootstrap && parts/python27/bin/python tests/bulkloader/figures.py

# How long the admin page takes to answer, with five nodes and a week of history.
page-figures:
	@trap : INT; ./bootstrap && bin/control-python tests/browser/page_figures.py

# The processor time that the monitor's history of measurements takes.
history-figures:
	@trap : INT; ./bootstrap && bin/control-python tests/unit/monitord/history_figures.py

test-indico:
	@trap : INT; ./bootstrap && tests/run indico
