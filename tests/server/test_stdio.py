"""The end of a server, in a process of its own: it leaves without coming back."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.clients import MODERN
from tests.support import PATIENCE_SECONDS

_PROGRAM = """
import os, signal, sys
import anyio
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult
from skills_mcp.server.parts import Serving
from skills_mcp.server.stdio import serve_stdio
from skills_mcp.server.wire import claimed_wire

def say(what):
    print(what, file=sys.stderr, flush=True)

class Library:
    early = None

    @property
    def refresher(self):
        return self

    async def run(self):
        {run}

    def close(self):
        say("library closed")

class Publisher:
    async def run(self):
        await anyio.sleep_forever()

    async def publish(self):
        say("last events published")
        {publish}

async def call_tool(context, params):
    {call}
    say("call answered")
    return CallToolResult(content=[])

server = Server("test", on_call_tool=call_tool)
with claimed_wire() as wire:
    serving = Serving(
        server=server, library=Library(), publisher=Publisher(), transport="pipe"
    )
    anyio.run(serve_stdio, serving, wire)
"""

_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "x", "arguments": {}, "_meta": MODERN},
}

_UNTIL_CANCELLED = """
    os.kill(os.getpid(), signal.SIGTERM)
    try:
        await anyio.sleep_forever()
    finally:
        say("call ended")
"""


@pytest.mark.spec("3.3")
def test_the_end_of_input_closes_the_library_then_publishes_then_leaves() -> None:
    with _serving() as process:
        _, said = process.communicate(timeout=PATIENCE_SECONDS)

    assert said.splitlines() == ["library closed", "last events published"]
    assert process.returncode == 0


@pytest.mark.spec("10.3")
def test_the_last_publishing_has_a_limit() -> None:
    with _serving(publish="await anyio.sleep_forever()") as process:
        process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0


def test_after_a_signal_calls_end_before_what_they_use() -> None:
    with _serving(call=_UNTIL_CANCELLED) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(_CALL) + "\n")
        process.stdin.flush()
        process.wait(timeout=PATIENCE_SECONDS)
        assert process.stderr is not None
        said = process.stderr.read()

    assert said.splitlines() == [
        "call ended",
        "library closed",
        "last events published",
    ]
    assert process.returncode == 0


_END = "os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize(
    "run, publish",
    [
        ("raise OSError(5)", ""),
        (f"{_END}; await anyio.sleep_forever()", "raise OSError(5)"),
    ],
    ids=["background", "last-publishing"],
)
def test_an_unexpected_error_ends_it_although_the_input_stays_open(run: str, publish: str) -> None:
    with _serving(run=run, publish=publish) as process:
        process.wait(timeout=PATIENCE_SECONDS)
        assert process.stderr is not None
        said = process.stderr.read()

    assert "library closed" in said
    assert process.returncode == 0


def test_what_a_tool_prints_is_no_part_of_the_protocol() -> None:
    with _serving(call='print("stray"); os.system("echo child")') as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(_CALL) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        rest, said = process.communicate(timeout=PATIENCE_SECONDS)

    assert answer["id"] == 1
    assert rest == ""
    assert "child" in said


@contextmanager
def _serving(
    *, run: str = "await anyio.sleep_forever()", publish: str = "", call: str = ""
) -> "Iterator[subprocess.Popen[str]]":
    program = _PROGRAM.format(run=run, publish=publish, call=call)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
