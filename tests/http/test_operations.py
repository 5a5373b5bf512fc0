"""The operations port of a server in a process of its own."""

import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.http_server import HttpServer, served
from tests.support import wait_for


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with served({"http": {"allowed_hosts": ["skills.example"], "anonymous": []}}) as serving:
        wait_for(lambda: get(serving, "/readyz").status_code == 200)
        yield serving


def get(serving: HttpServer, path: str, **headers: str) -> httpx.Response:
    return httpx.get(serving.operations_url + path, headers=headers)


def test_a_server_that_has_content_is_alive_and_ready(server: HttpServer) -> None:
    alive, ready = get(server, "/healthz"), get(server, "/readyz")

    assert (alive.status_code, alive.text) == (200, "ok\n")
    assert (ready.status_code, ready.json()) == (200, {"ready": True})
    assert ready.headers["cache-control"] == "no-store"


def test_prometheus_reads_metrics(server: HttpServer) -> None:
    plain = get(server, "/metrics")
    openmetrics = get(server, "/metrics", accept="application/openmetrics-text")

    assert "skills_served 27.0" in plain.text
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert openmetrics.headers["content-type"].startswith("application/openmetrics")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_it_can_only_be_read(server: HttpServer, path: str) -> None:
    url = server.operations_url + path

    assert httpx.head(url).status_code == 200
    assert {httpx.request(method, url).status_code for method in ("POST", "PUT", "DELETE")} == {405}
    assert get(server, "/mcp").status_code == 404


def test_a_probe_names_the_address_of_a_container(server: HttpServer) -> None:
    hosts = ("10.2.3.4:8001", "[fd00::1]:8001", "localhost:9", "skills.example")

    assert {get(server, "/healthz", host=each).status_code for each in hosts} == {200}


def test_a_web_page_is_refused(server: HttpServer) -> None:
    assert get(server, "/metrics", host="evil.example").status_code == 421
    origin = get(server, "/metrics", origin=server.operations_url)
    assert origin.status_code == 403


def test_a_server_without_content_is_alive_but_not_ready() -> None:
    nothing = ("--repo", "file:///nowhere/to/be/found.git")
    with served(options=nothing) as serving:
        assert get(serving, "/healthz").status_code == 200
        wait_for(lambda: why(serving).get("reason") == "sync failed")

        assert why(serving) == {
            "ready": False,
            "reason": "sync failed",
            "code": "REMOTE_NOT_FOUND",
        }
        assert get(serving, "/readyz").status_code == 503


def why(serving: HttpServer) -> dict[str, Any]:
    said: dict[str, Any] = get(serving, "/readyz").json()
    return said


def test_a_server_that_ends_says_so_while_it_still_answers() -> None:
    with served({"http": {"drain_seconds": 60}}) as serving:
        wait_for(lambda: get(serving, "/readyz").status_code == 200)
        serving.process.send_signal(signal.SIGTERM)
        wait_for(lambda: get(serving, "/readyz").status_code == 503)

        assert why(serving) == {"ready": False, "reason": "ending"}
        assert get(serving, "/healthz").status_code == 200
