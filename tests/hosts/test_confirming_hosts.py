"""With TLS, what a node confirms counts only if it comes from the host of that node."""

from __future__ import annotations

from typing import Any

import pytest
from patience import wait_until
from three import PATIENCE, Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.host import tunnel_control

pytestmark = pytest.mark.skipif(
    tunnel_control.find() is None, reason="haproxy is missing: apt-get install haproxy"
)

# Follows the primary and answers its question as a node, with the newest transaction there can be.
ANSWERING = """
import json, socket, struct, sys, time
host, port, name, epoch = sys.argv[1:]
peer = socket.create_connection((host, int(port)))
def send(message):
    peer.sendall(struct.pack('>I', len(message)) + message)
send(b'zrs2.1')
send(8 * b'\\0')
peer.recv(10, socket.MSG_WAITALL)
send(json.dumps(
    {'node': name, 'epoch': int(epoch), 'level': 'fsync', 'tid': 16 * '7'}).encode())
print('answered', flush=True)
time.sleep(600)
"""


def acknowledging(three: Three) -> dict[str, Any]:
    (found,) = [
        node["acknowledging"] for node in three.status("h3")["nodes"] if node["name"] == "a"
    ]
    return dict(found or {"confirming": {}, "not_counted": {}})


def test_a_host_confirms_for_its_own_nodes_only(lab: Lab) -> None:
    three = Three(lab, "tls", section="synchronous 1")
    three.agents()
    three.zodbrepl("h1", "up")

    def all_confirm() -> bool:
        return set(acknowledging(three)["confirming"]) == {"b", "c"}

    assert wait_until(all_confirm, later()), acknowledging(three)
    before = acknowledging(three)
    assert before["not_counted"] == {}

    # Host h3 answers as node b of host h2, through its tunnel.
    false = lab["h3"].popen("python3", "-c", ANSWERING, "127.77.0.11", "8202", "b", "1")
    try:

        def is_refused() -> bool:
            return "b" in acknowledging(three)["not_counted"]

        assert wait_until(is_refused, later()), acknowledging(three)
        after = acknowledging(three)
        assert "127.77.0.13" in after["not_counted"]["b"]
        assert set(after["confirming"]) == {"b", "c"}
        assert after["confirming"]["b"] == before["confirming"]["b"]
        shown = three.zodbrepl("h2", "status", code=None).stdout
        assert "what node b confirms" in shown
    finally:
        false.kill()
        false.wait(PATIENCE)
