"""A client without any SDK: JSON lines over the pipes of a child process."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class PipeClient:
    """A server process, and requests to it."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str]) -> None:
        self._started = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._requests = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin and self._process.stdout:
            self._process.stdin.close()
            self._process.stdout.close()
        self._process.wait()

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its result."""
        if self._process.stdin is None or self._process.stdout is None:
            raise SystemExit("the server has no pipes")
        self._requests += 1
        message = {
            "jsonrpc": "2.0",
            "id": self._requests,
            "method": method,
            "params": {**params, "_meta": META},
        }
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self._requests:
                result: dict[str, Any] = answer.get("result", {"isError": True})
                if result.get("isError"):
                    raise SystemExit(f"{method} failed: {answer}")
                return result
        raise SystemExit(f"the server ended during {method}")

    def first_answer_seconds(self) -> float:
        """Return the seconds from the start of the process to its first answer."""
        self.request("server/discover")
        return self.seconds_since_start()

    def seconds_since_start(self) -> float:
        """Return how long the process has been running."""
        return time.perf_counter() - self._started

    def call_seconds(self, tool: str, arguments: Mapping[str, Any]) -> float:
        """Return the seconds that one tool call takes, there and back."""
        started = time.perf_counter()
        self.request("tools/call", name=tool, arguments=dict(arguments))
        return time.perf_counter() - started

    def memory_mebibytes(self) -> dict[str, float]:
        """Return the kinds of memory of the process, where the system tells (Linux).

        `VmRSS` is all of it, `RssAnon` what is not shared, and `Pss` counts a share of
        each page that several processes have in common.
        """
        found: dict[str, float] = {}
        for name in ("status", "smaps_rollup"):
            file = Path(f"/proc/{self._process.pid}/{name}")
            if file.exists():
                found |= _read_sizes(file.read_text())
        return found


def _read_sizes(text: str) -> dict[str, float]:
    """Return the lines in KiB, in MiB."""
    rows = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {row[0].rstrip(":"): int(row[1]) / 1024 for row in rows}
