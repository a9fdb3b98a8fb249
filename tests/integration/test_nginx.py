"""etc/nginx/indico.conf, with a real nginx, a self-signed certificate and two real instances."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from pathlib import Path

import pytest
import requests
from clusters import ClusterUnderTest, free_ports
from indico_browser import IndicoBrowser

from indico_zodbrepl.bench.suites import http_front
from indico_zodbrepl.cluster import Cluster

NAME = "localhost"
NGINX_TAG = re.compile(r'"[0-9a-f]+-[0-9a-f]+"$')


def example(home: Path, cluster: Cluster, folder: Path, http: int, https: int) -> str:
    """Return the example with the names, ports and files of this test."""
    text = (home / "etc/nginx/indico.conf").read_text()
    one, two = (each.port for each in cluster.indico)
    for old, new in {
        "listen 80;": f"listen 127.0.0.1:{http};",
        "listen 443 ssl;": f"listen 127.0.0.1:{https} ssl;",
        "https://events.example.org$request_uri": f"https://{NAME}:{https}$request_uri",
        "server_name events.example.org": f"server_name {NAME}",
        "/etc/ssl/certs/events.example.org.pem": f"{folder}/certificate.pem",
        "/etc/ssl/private/events.example.org.key": f"{folder}/key.pem",
        "root /opt/zodbrepl/parts/": f"root {home}/parts/",
        "root /opt/zodbrepl/var": f"root {cluster.var_directory}",
        "127.0.0.1:8101": f"127.0.0.1:{one}",
        "127.0.0.1:8102": f"127.0.0.1:{two}",
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.skipif(
    http_front.find() is None, reason=f"nginx is missing: apt-get install {http_front.PACKAGE}"
)
def test_pages_files_and_the_login_go_over_tls(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http, https = free_ports(2)
    tmp_path.chmod(0o755)
    folder = tmp_path / "nginx"
    folder.mkdir()
    certificate = folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"),
            *("-keyout", folder / "key.pem", "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    (tmp_path / "cluster").mkdir()
    under_test = ClusterUnderTest(tmp_path / "cluster", home, indico=("one", "two"))
    url = f"https://{NAME}:{https}/indico"
    text = under_test.path.read_text().replace("name test\n", f"name test\npublic-url {url}\n")
    under_test.path.write_text(text)
    (folder / "indico.conf").write_text(example(home, under_test.cluster, folder, http, https))
    content = f"include /etc/nginx/mime.types;\ninclude {folder}/indico.conf;"
    with (
        contextlib.closing(under_test),
        http_front.running(http_front.installed(), folder, content),
    ):
        under_test.start()
        under_test.begin_indico()
        browser = IndicoBrowser(url)
        deadline = time.monotonic() + 120
        while (page := browser.get("/")).status_code != 200:
            assert time.monotonic() < deadline, page.text
            time.sleep(1)
        assert f'href="{url}' in page.text
        assert "http://127.0.0.1" not in page.text
        assert "max-age" in page.headers["Strict-Transport-Security"]
        file = browser.get("/css/Default.css")
        assert (200, "text/css") == (file.status_code, file.headers["Content-Type"])
        assert "ETag" in file.headers, "Indico served it, not nginx"
        bundles = re.findall(r'src="/indico(/static/assets/[^"]+)"', page.text)
        assert bundles
        for each in bundles:
            served = browser.get(each)
            assert 200 == served.status_code
            assert NGINX_TAG.match(served.headers["ETag"]), "Indico served it, not nginx"
        plain = requests.get(f"http://127.0.0.1:{http}/indico/", allow_redirects=False, timeout=20)
        assert (301, f"{url}/") == (plain.status_code, plain.headers["Location"])
        health = requests.get(f"https://{NAME}:{https}/zodbrepl/health", timeout=20)
        assert 404 == health.status_code
        browser.log_in("admin", "secret")
        cookies = [cookie.secure for cookie in iter(browser.session.cookies)]
        assert cookies
        assert all(cookies)
        assert "Ada" in browser.get("/").text
        under_test.stop("indico-one")
        assert [200] * 4 == [browser.get("/").status_code for _ in range(4)]
