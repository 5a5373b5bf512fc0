"""A stand-in for models on the loopback: it answers by what the prompt holds.

It calls the tool that brings a skill about the ritual, and writes the files that a line
such as `WRITE a.txt right` names.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHELLS = ("Bash", "exec_command", "shell_command")
USAGE = {"input_tokens": 100, "output_tokens": 10}


def choose_call(text: str, tools: list[str], called: list[str]) -> tuple[str, Any] | None:
    shell = next(tool for tool in SHELLS if tool in tools)
    order = re.search(r"WRITE ([\w.]+) (\w+)", text)
    if order and f"echo {order[2]}" not in text:
        return shell, f"echo {order[2]} > {order[1]}"
    skill_tool = next((tool for tool in tools if tool.endswith("get_skill")), None)
    if skill_tool and skill_tool not in called:
        return skill_tool, {"context": "the magic ritual"}
    listed = re.search(r"- ([\w-]*ritual[\w-]*):", text)
    if listed and "Skill" in tools and "Skill" not in called:
        return "Skill", {"skill": listed[1]}
    file = re.search(r"file: (r\d+)(/[\w-]*ritual[\w-]*/SKILL.md)", text)
    if file and not called:
        root = re.search(f"`{file[1]}` = `([^`]+)`", text)
        return shell, f"cat {root[1] if root else ''}{file[2]}"
    return None


def answer_messages(body: Any, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Events of Anthropic's API."""
    blocks = [
        block
        for message in body["messages"]
        if message["role"] == "assistant" and isinstance(message["content"], list)
        for block in message["content"]
    ]
    called = [block["name"] for block in blocks if block["type"] == "tool_use"]
    tools = [tool.get("name") for tool in body.get("tools", [])]
    call = choose_call(text, tools, called) if "Bash" in tools else None
    message = {"id": "m", "type": "message", "role": "assistant", "model": body["model"]}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": USAGE}
    yield "message_start", {"message": message}
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "done"}
    if call:
        given = {"command": call[1]} if isinstance(call[1], str) else call[1]
        block = {"type": "tool_use", "id": f"t{len(called)}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    yield "message_delta", {"delta": end, "usage": {"output_tokens": 10}}
    yield "message_stop", {}


def answer_responses(body: Any, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Events of OpenAI's API."""
    names: list[tuple[str | None, str]] = []
    names += [(None, tool["name"]) for tool in body["tools"] if tool.get("type") == "function"]
    spaces = [tool for tool in body["tools"] if tool.get("type") == "namespace"]
    names += [(space["name"], tool["name"]) for space in spaces for tool in space["tools"]]
    spelled = {f"{space or ''}{name}": (space, name) for space, name in names}
    called = [
        f"{item.get('namespace') or ''}{item['name']}"
        for item in body["input"]
        if item.get("type") == "function_call"
    ]
    call = choose_call(text, [*spelled], called)
    content = [{"type": "output_text", "text": "done", "annotations": []}]
    item: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
    if call:
        space, name = spelled[call[0]]
        given = {"cmd": call[1]} if isinstance(call[1], str) else call[1]
        item = {"type": "function_call", "call_id": f"c{len(called)}", "name": name}
        item |= {"arguments": json.dumps(given)} | ({"namespace": space} if space else {})
    item |= {"id": "i", "status": "completed"}
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [item]}
    yield "response.created", {"response": {**response, "output": [], "status": "in_progress"}}
    yield "response.output_item.added", {"output_index": 0, "item": item}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    ended = {**response, "status": "completed", "usage": {**USAGE, "total_tokens": 110}}
    yield "response.completed", {"response": ended}


class _Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self._send("{}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = answer_messages if "/messages" in self.path else answer_responses
        if not body.get("stream"):
            self._send('{"input_tokens": 10}')
            return
        events = answer(body, json.dumps(body))
        lines = (
            f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"
            for kind, data in events
        )
        self._send("".join(lines))

    def _send(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


@contextmanager
def serving_model() -> Iterator[str]:
    """Serve the stand-in; give its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
