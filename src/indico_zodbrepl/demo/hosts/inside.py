"""Run on a host of the demo: load the conferences, or make the account of the admin page.

python -m indico_zodbrepl.demo.hosts.inside fill CONFERENCES
python -m indico_zodbrepl.demo.hosts.inside login
"""

from __future__ import annotations

import json
import sys

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.installation import (
    Installation,
    default_cluster_file,
    home_from_environment,
)
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.demo import comparison, data, login
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import secrets
from indico_zodbrepl.host.indico_programs import Indico27

COUNTS = "demo-counts.json"
"""A file in the var directory: what the last node held when all had the same, by its name."""


def _say(line: str) -> None:
    print(line, flush=True)


def main(verb: str, *arguments: str) -> None:
    installation = Installation(home_from_environment())
    cluster = load(default_cluster_file(installation.home), installation.home)
    if verb == "login":
        login.ensure(cluster)
        return
    layout, indico = Layout(cluster), Indico27(cluster, installation)
    data.first_user(indico, secrets.path_in(layout.var), _say)
    data.load(indico, int(arguments[0]))
    comparison.wait_until_in_step(cluster)
    _say("all nodes have the primary's last transaction")
    # One that has received everything through the network; to read all takes as long as the load.
    node = backend_of(cluster).readable_nodes(cluster)[-1]
    found = {node.name: indico.count(layout.node_zodb_conf(node))}
    write_atomically(layout.var / COUNTS, json.dumps(found) + "\n", 0o600)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OperatorError as error:
        _say(str(error))
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        sys.exit(int(ExitCode.INTERRUPTED))
