"""Claude Code compacts its conversation, and its next request has the must-lines.

The model is a stand-in on the loopback; see `test_real_hosts` for how the host is installed.
"""

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.features.hosts.test_real_hosts import prepare, require
from tests.windows import FOLDER, end_servers

SUMMARY = "<summary>A page was begun.</summary>"


class _Model(BaseHTTPRequestHandler):
    """Calls get_skill once where the prompt says so, and else answers with a text."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._send(b"{}", "application/json")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.loads(raw or b"{}")
        if "messages" not in body or "count_tokens" in self.path:
            self._send(b'{"input_tokens": 1}', "application/json")
            return
        requests: list[dict[str, Any]] = vars(self.server)["requests"]
        requests.append(body)
        events = (
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _answer(body)
        )
        self._send("".join(events).encode(), "text/event-stream")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _answer(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of one answer of a model, as its API streams them."""
    names = [tool["name"] for tool in body.get("tools", ())]
    said = json.dumps(body["messages"])
    calls = "USE-SKILL" in said and "tool_result" not in said and "mcp__skills__get_skill" in names
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": SUMMARY}
    if calls:
        block = {"type": "tool_use", "id": "t1", "name": "mcp__skills__get_skill", "input": {}}
        wanted = {"context": "a login page", "skill_path": "ui/react/auth"}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(wanted)}
    usage = {"input_tokens": 9, "output_tokens": 9}
    reason = "tool_use" if calls else "end_turn"
    identifier = f"m{len(said)}"  # the host takes two with the same one for parts of one
    message = {"id": identifier, "type": "message", "role": "assistant", "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
    yield {"type": "message_stop"}


@pytest.fixture
def model() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Model) as server:
        vars(server)["requests"] = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def converse(process: "subprocess.Popen[str]", prompt: str) -> None:
    """Send a prompt, and wait for its result."""
    assert process.stdin is not None
    assert process.stdout is not None
    message = {"type": "user", "message": {"role": "user", "content": prompt}}
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    assert any('"type":"result"' in line for line in process.stdout)


@pytest.mark.usefixtures("near_home")
def test_after_a_compaction_of_claude_code_its_model_reads_the_must_lines(
    home: Path, model: ThreadingHTTPServer
) -> None:
    require("claude-code")
    environment = {
        **prepare(home, "claude-code", "--hook"),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_port}",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    words = ("--input-format=stream-json", "--output-format=stream-json", "--verbose")
    requests: list[dict[str, Any]] = vars(model)["requests"]

    with subprocess.Popen(
        ["claude", "-p", *words, "--allowedTools=mcp__skills__get_skill"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=home / "project",
    ) as process:
        converse(process, "hello")
        converse(process, "USE-SKILL for a login page")
        served = len(requests)
        converse(process, "/compact")
        converse(process, "go on")
        assert process.stdin is not None
        process.stdin.close()
    end_servers(Path(environment[FOLDER]))

    before, compaction, after = (
        json.dumps(found) for found in (requests[served - 1], requests[served], requests[-1])
    )
    rule = "Skills of this session, compacted away"
    assert "=== GLOBAL RULES" in before
    assert rule in compaction  # as instructions for the summary
    assert "=== GLOBAL RULES" not in after
    assert rule in after
    assert "ui/react/auth (digest" in after
