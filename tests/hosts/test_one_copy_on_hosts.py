"""The backend zeo on several hosts: one server with the only copy, and clients on the others."""

from __future__ import annotations

from counted import Counted, held
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab import Lab


class OneServer(Three):
    """Node a with all the data is on h1."""

    def _text(self) -> str:
        lines = [
            "name three",
            "backend zeo",
            f"encryption {self.encryption}",
            f"var-directory {self.lab.srv}/var",
        ]
        for host in self.lab:
            lines += [f"<host {host.name}>", f"  address {host.address}", "</host>"]
        lines += ["<node a>", "host h1", "storage-port 8111", "role primary"]
        lines += [f"data-directory {self.lab.srv}/a", "</node>"]
        return "\n".join([*lines, "<admin>", "host h3", "port 8131", "</admin>", ""])


def test_a_client_on_another_host_commits_through_the_tunnel(lab: Lab) -> None:
    cluster = OneServer(lab, "tls")
    cluster.agents()
    cluster.zodbrepl("h3", "up")
    with Counted(cluster, "h2") as writer:
        writer.see_more()
        for host in ("h1", "h2", "h3"):
            assert wait_until(lambda host=host: is_healthy(cluster, host), later())  # type: ignore[misc]
        lab["h1"].kill()
        assert wait_until(lambda: cluster.status("h2")["state"] == "down", later())
        lab["h1"].start()
        cluster.agents(["h1"])
        cluster.zodbrepl("h2", "up")
        writer.see_more()
    assert set(writer.acknowledged) <= held(cluster, "a")


def is_healthy(cluster: Three, host: str) -> bool:
    return bool(cluster.status(host)["state"] == "healthy")
