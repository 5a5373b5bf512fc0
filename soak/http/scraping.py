"""Prometheus itself reads the metrics of a server that is asked: promise 58."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from soak.http.identity_provider import find_port
from soak.scenario import Figure, Scale, Scenario, Unavailable
from tests.http_server import HttpServer, served
from tests.support import wait_for

_COUNT = "mcp_server_operation_duration_seconds_count"
_CALLS = f'{_COUNT}{{mcp_method_name="tools/call"}}'
_MADE_UP = f'{_COUNT}{{mcp_method_name="tools/call",gen_ai_tool_name="other"}}'

# A server that has answered everything it can, with room for labels to come.
_MAX_SAMPLES = 1_000


def scrape(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Let Prometheus read a server while clients call tools, some made up."""
    calls = scale.count(full=500, quick=20)
    with served() as server, _scraping(folder, server) as prometheus:
        anyio.run(_call, server.url, calls)
        counted = 2 * calls  # half of them have a name that no tool has

        def count() -> float:
            return _ask(prometheus, f"sum({_CALLS})")

        wait_for(lambda: count() >= counted)
        found = int(count())
        yield Figure.every(58, "calls that Prometheus has counted", found, counted)
        made_up = int(_ask(prometheus, f"count({_MADE_UP})"))
        yield Figure.at_most(58, f"series of {calls:,} made-up tools", made_up, 1)
        samples = int(_ask(prometheus, "max_over_time(scrape_samples_scraped[1h])"))
        yield Figure.at_most(58, "samples of a scrape", samples, _MAX_SAMPLES)
        scrapes = int(_ask(prometheus, "count_over_time(up[1h])"))
        failed = scrapes - int(_ask(prometheus, "sum_over_time(up[1h])"))
        yield Figure.none(58, "scrapes that failed", failed, scrapes)


async def _call(url: str, count: int) -> None:
    async with Client(url) as client:
        for number in range(count):
            await client.call_tool("get_skill", {"context": f"add login {number}"})
            try:
                await client.call_tool(f"made_up_{number}", {})
            except MCPError:
                continue
            raise RuntimeError("a tool that does not exist has answered")


@contextmanager
def _scraping(folder: Path, server: HttpServer) -> Iterator[str]:
    """Run Prometheus; yield its address."""
    if not (program := shutil.which("prometheus")):
        raise Unavailable("there is no prometheus")
    target = server.operations_url.removeprefix("http://")
    jobs = [{"job_name": "skills", "static_configs": [{"targets": [target]}]}]
    settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    address = f"127.0.0.1:{find_port()}"
    process = subprocess.Popen(
        [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            "--log.level=error",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: _is_up(f"http://{address}"))
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


def _is_up(prometheus: str) -> bool:
    try:
        return _ask(prometheus, "up") == 1
    except httpx.HTTPError:  # not there yet, or there and not ready
        return False


def _ask(prometheus: str, query: str) -> float:
    """Return the value of a query; 0 if it has none yet."""
    answer = httpx.get(f"{prometheus}/api/v1/query", params={"query": query})
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json().get("data", {}).get("result", [])
    return float(found[0]["value"][1]) if found else 0.0


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("scraping", scrape),)
