"""Hosts compact their conversation, and their next request has the must-lines.

The model is a stand-in on the loopback; see `test_real_hosts` for how a host is installed.
Codex is driven by its app server, Gemini CLI and Copilot CLI in a terminal.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.features.hosts.test_real_hosts import Environment, prepare
from tests.support import PATIENCE_SECONDS
from tests.windows import FOLDER, end_servers

SUMMARY = "<summary>A page was begun.</summary><state_snapshot>A page.</state_snapshot>"
WANTED = {"context": "a login page", "skill_path": "ui/react/auth"}
PROMPTS = ("hello", "USE-SKILL for a login page")
QUIET_SECONDS = 2.0  # a terminal that draws nothing for so long waits for input

REMINDER = "Skills of this session, compacted away"
TEXT = "=== GLOBAL RULES"  # of the whole text

Events = Iterator[tuple[str, dict[str, Any]]]


class _Model(BaseHTTPRequestHandler):
    """Calls get_skill once where the prompt says so, and else answers with a text."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._send(b"{}", "application/json")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        answer = next((ANSWERS[part] for part in ANSWERS if part in self.path), None)
        if answer is None or "count" in self.path:
            self._send(b'{"input_tokens": 1, "totalTokens": 1}', "application/json")
            return
        requests: list[str] = vars(self.server)["requests"]
        requests.append(json.dumps(body))
        events = [*answer(body, find_call(body))]
        if self.path.endswith(":generateContent"):
            self._send(json.dumps(events[0][1]).encode(), "application/json")
            return
        lines = (
            f"event: {kind}\n" * bool(kind) + f"data: {json.dumps(e)}\n\n" for kind, e in events
        )
        self._send("".join(lines).encode(), "text/event-stream")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def find_call(body: Mapping[str, Any]) -> tuple[str | None, str] | None:
    """The tool to call, with its namespace: that of the skill, once."""
    tools = [
        (group.get("name"), tool["name"])
        for group in body.get("tools", ())
        for tool in (
            *group.get("functionDeclarations", ()),  # Gemini's
            *group.get("tools", ()),  # a namespace of Codex
            *([group["function"]] if "function" in group else ()),
            *([group] if "name" in group else ()),
        )
    ]
    found = next((tool for tool in tools if tool[1].endswith("get_skill")), None)
    said = json.dumps([body.get(key) for key in ("messages", "input", "contents")])
    results = ("tool_result", "function_call_output", "functionResponse", '"role": "tool"')
    is_due = "USE-SKILL" in said and not any(result in said for result in results)
    return found if is_due else None


def answer_messages(body: Mapping[str, Any], call: tuple[str | None, str] | None) -> Events:
    """Events of Anthropic's API."""
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": SUMMARY}
    if call:
        block = {"type": "tool_use", "id": "t1", "name": call[1], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(WANTED)}
    usage = {"input_tokens": 9, "output_tokens": 9}
    reason = "tool_use" if call else "end_turn"
    # The host takes two with the same identifier for parts of one.
    identifier = f"m{len(json.dumps(body))}"
    message = {"id": identifier, "type": "message", "role": "assistant", "content": []}
    for event in (
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ):
        yield str(event["type"]), event


def answer_responses(_body: Mapping[str, Any], call: tuple[str | None, str] | None) -> Events:
    """Events of OpenAI's newer API."""
    content = [{"type": "output_text", "text": SUMMARY, "annotations": []}]
    item: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
    if call:
        item = {"type": "function_call", "call_id": "c1", "namespace": call[0], "name": call[1]}
        item |= {"arguments": json.dumps(WANTED)}
    item |= {"id": "i", "status": "completed"}
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [item]}
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
    for kind, data in (
        ("response.created", {"response": {**response, "output": []}}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": {**response, "usage": usage}}),
    ):
        yield kind, {"type": kind, **data}


def answer_completions(_body: Mapping[str, Any], call: tuple[str | None, str] | None) -> Events:
    """Chunks of OpenAI's older API."""
    function = {"name": call[1], "arguments": json.dumps(WANTED)} if call else {}
    calls = [{"index": 0, "id": "c1", "type": "function", "function": function}]
    delta = {"role": "assistant", **({"tool_calls": calls} if call else {"content": SUMMARY})}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    reason = "tool_calls" if call else "stop"
    yield "", {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield "", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def answer_contents(_body: Mapping[str, Any], call: tuple[str | None, str] | None) -> Events:
    """The one answer of Google's API."""
    part = {"functionCall": {"name": call[1], "args": WANTED}} if call else {"text": SUMMARY}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}
    candidates = [{"content": content, "finishReason": "STOP", "index": 0}]
    yield "", {"candidates": candidates, "usageMetadata": usage}


ANSWERS = {
    "/messages": answer_messages,
    "/responses": answer_responses,
    "/chat/completions": answer_completions,
    "enerateContent": answer_contents,
}
"""By a part of the path."""


@pytest.fixture
def model() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Model) as server:
        vars(server)["requests"] = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Conversation(NamedTuple):
    environment: Environment
    project: Path
    requests: list[str]
    """What the model was asked."""


def converse_with_claude(talk: Conversation) -> None:
    words = ("--input-format=stream-json", "--output-format=stream-json", "--verbose")
    with subprocess.Popen(
        ["claude", "-p", *words, "--allowedTools=mcp__skills__get_skill"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=talk.environment,
        cwd=talk.project,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for prompt in (*PROMPTS, "/compact", "onward"):
            message = {"type": "user", "message": {"role": "user", "content": prompt}}
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            assert any('"type":"result"' in line for line in process.stdout)
        process.stdin.close()


def converse_with_codex(talk: Conversation) -> None:
    with subprocess.Popen(
        ["codex", "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=talk.environment,
        cwd=talk.project,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = (json.loads(line) for line in process.stdout)

        def ask(method: str, end: str = "", **params: Any) -> Any:
            """Call a method, and wait for its answer and perhaps for a notification."""
            assert process.stdin is not None
            process.stdin.write(json.dumps({"id": method, "method": method, "params": params}))
            process.stdin.write("\n")
            process.stdin.flush()
            answer = next(line for line in lines if line.get("id") == method)
            assert not end or any(line.get("method") == end for line in lines)
            return answer["result"]

        ask("initialize", clientInfo={"name": "t", "version": "1"})
        # A person trusts hooks once, in /hooks.
        for hook in ask("hooks/list", cwds=[str(talk.project)])["data"][0]["hooks"]:
            key = f'hooks.state."{hook["key"]}".trusted_hash'
            value = {"keyPath": key, "value": hook["currentHash"], "mergeStrategy": "replace"}
            ask("config/value/write", **value)
        policy = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
        thread = ask("thread/start", cwd=str(talk.project), **policy)["thread"]["id"]

        def say(prompt: str) -> None:
            said = [{"type": "text", "text": prompt}]
            ask("turn/start", "turn/completed", threadId=thread, input=said)

        for prompt in PROMPTS:
            say(prompt)
        ask("thread/compact/start", "turn/completed", threadId=thread)
        say("onward")
        process.stdin.close()


class Terminal:
    """A program in a terminal."""

    def __init__(self, command: tuple[str, ...], talk: Conversation) -> None:
        self._process, self._handle = pty.fork()
        if not self._process:
            os.chdir(talk.project)
            os.execvpe(command[0], command, talk.environment)  # noqa: S606
        size = struct.pack("HHHH", 50, 160, 0, 0)
        fcntl.ioctl(self._handle, termios.TIOCSWINSZ, size)
        self.shown = ""

    def settle(self, condition: Callable[[], object] = lambda: True) -> None:
        """Read until the program waits for input and a condition holds."""
        for _ in range(round(PATIENCE_SECONDS / QUIET_SECONDS)):
            while select.select([self._handle], [], [], QUIET_SECONDS)[0]:
                read = os.read(self._handle, 65536).decode(errors="replace")
                self.shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", read)
            if condition():
                return
        raise AssertionError(self.shown[-2000:])

    def type(self, text: str) -> None:
        for keys in (text, "\r"):
            os.write(self._handle, keys.encode())
            self.settle()

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._handle)


def is_longer(requests: list[str], count: int) -> bool:
    return len(requests) > count


def converse_in_terminal(
    compact: str, greeting: str, *command: str
) -> Callable[[Conversation], None]:
    """Converse with a program that shows its greeting when its servers are connected."""

    def converse(talk: Conversation) -> None:
        terminal = Terminal(command, talk)
        try:
            terminal.settle(lambda: greeting in terminal.shown)
            for prompt in (*PROMPTS, compact, "onward"):
                asked = len(talk.requests)
                terminal.type(prompt)
                terminal.settle(partial(is_longer, talk.requests, asked))
        finally:
            terminal.close()

    return converse


CODEX = """
[model_providers.standin]
name = "standin"
base_url = "{url}/v1"
wire_api = "responses"
[projects."{project}"]
trust_level = "trusted"
"""


def prepare_codex(home: Path, url: str) -> None:
    file = home / ".codex/config.toml"
    choice = 'model = "m"\nmodel_provider = "standin"\n'
    more = CODEX.format(url=url, project=home / "project")
    file.write_text(f"{choice}{file.read_text()}{more}")


def prepare_gemini(home: Path, _url: str) -> None:
    file = home / ".gemini/settings.json"
    chosen = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
    }
    file.write_text(json.dumps({**json.loads(file.read_text()), **chosen}))


def prepare_copilot(home: Path, _url: str) -> None:
    trusted = {"trusted_folders": [str(home / "project")]}
    (home / ".copilot/config.json").write_text(json.dumps(trusted))


class RealHost(NamedTuple):
    program: str
    prepare: Callable[[Path, str], object]
    variables: Mapping[str, str]
    converse: Callable[[Conversation], None]
    reads_before: bool = False
    """Whether the summary is made with the reminder."""


REAL_HOSTS: Mapping[str, RealHost] = {
    "claude-code": RealHost(
        "claude",
        lambda _home, _url: None,
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        converse_with_claude,
        reads_before=True,
    ),
    "codex": RealHost("codex", prepare_codex, {}, converse_with_codex),
    "gemini": RealHost(
        "gemini",
        prepare_gemini,
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{url}"},
        converse_in_terminal(
            "/compress", "1 MCP server", "gemini", "--yolo", "--model", "gemini-2.5-pro"
        ),
    ),
    "copilot": RealHost(
        "copilot",
        prepare_copilot,
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "gpt-4.1",
        },
        converse_in_terminal("/compact", "MCP server", "copilot", "--allow-all-tools"),
    ),
}


@pytest.mark.usefixtures("near_home")
@pytest.mark.parametrize("name", REAL_HOSTS)
def test_after_a_compaction_of_a_host_its_model_reads_the_must_lines(
    home: Path, model: ThreadingHTTPServer, name: str
) -> None:
    host = REAL_HOSTS[name]
    if shutil.which(host.program) is None:
        pytest.skip(f"not installed: {host.program}")
    url = f"http://127.0.0.1:{model.server_port}"
    variables = {key: value.format(url=url) for key, value in host.variables.items()}
    environment = {**prepare(home, name, "--hook"), **variables}
    host.prepare(home, url)
    requests: list[str] = vars(model)["requests"]

    host.converse(Conversation(environment, home / "project", requests))
    end_servers(Path(environment[FOLDER]))

    after = next(index for index, text in enumerate(requests) if "onward" in text)
    served = next(index for index, text in enumerate(requests) if TEXT in text)
    assert served < after - 1  # between them is the compaction
    assert REMINDER in requests[after]
    assert "ui/react/auth (digest" in requests[after]
    assert (REMINDER in requests[served + 1]) is host.reads_before
