"""Known agents: command line, folder of skills, MCP settings, and what their output says.

Sources: code.claude.com/docs/en/headless, developers.openai.com/codex/noninteractive,
geminicli.com/docs/cli/headless, opencode.ai/docs/cli.

Each runs without asking for permission: the sandbox around it decides.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from skills_mcp.features.export.layout import FolderFormat

AgentName = Literal["claude", "codex", "gemini", "opencode"]
AGENT_NAMES: tuple[AgentName, ...] = get_args(AgentName)
Via = Literal["native", "mcp", "prompt"]

SERVER_NAME = "skills"
PROMPT = "{prompt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOutput:
    """Answer and usage of an agent; None for unknown usage."""

    text: str
    cost: float | None = None
    tokens: int | None = None
    turns: int | None = None
    model: str = ""
    fault: str = ""
    """The agent's own reason for not having worked; such a run does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Command line of an agent, and the parser of its output."""

    name: str
    words: tuple[str, ...]
    """With `{prompt}` where the task belongs."""
    parse: Callable[[str], AgentOutput]
    format: FolderFormat = "agents"
    folder: str = ".agents/skills"
    """Where it looks for skills in a project."""
    model_words: tuple[str, ...] = ()
    model: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    connect: "Callable[[Path, Path, Sequence[str]], tuple[str, ...]] | None" = None
    """Writes settings for an MCP server into a work folder or HOME; gives more options."""

    def command_line(self, prompt: str, options: Sequence[str] = ()) -> tuple[str, ...]:
        model = (*self.model_words, self.model) if self.model and self.model_words else ()
        first, *rest = (word.replace(PROMPT, prompt) for word in self.words)
        if PROMPT in self.words:  # its own options stand in front of the task
            place = self.words.index(PROMPT) - 1
            return (first, *rest[:place], *model, *options, *rest[place:])
        return (first, *rest, *model, *options)


def _lines(output: str) -> Iterator[Mapping[str, Any]]:
    """JSON objects of an output; other lines are skipped, as agents print notices."""
    for line in output.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _get(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _sum(values: Any, *names: str) -> int | None:
    found = [_get(values, name) for name in names]
    numbers = [number for number in found if isinstance(number, int)]
    return sum(numbers) if numbers else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def parse_plain(output: str) -> AgentOutput:
    """Parse the output of another agent: JSON with usual names, else a text."""
    *_, last = [{}, *_lines(output)]
    usage = last.get("usage")
    text = next((last[k] for k in ("result", "response", "output", "text") if k in last), output)
    return AgentOutput(
        text=text if isinstance(text, str) else output,
        cost=_number(last.get("total_cost_usd", last.get("cost"))),
        tokens=_whole(last.get("tokens")) or _sum(usage, "input_tokens", "output_tokens"),
        turns=_whole(last.get("num_turns", last.get("turns"))),
        model=str(last.get("model") or ""),
    )


_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def parse_claude(output: str) -> AgentOutput:
    result: Mapping[str, Any] = {}
    model = ""
    for line in _lines(output):
        if line.get("type") == "result":
            result = line
        model = model or str(_get(line, "model") or "")
    is_limit = str(result.get("subtype", "")).startswith("error_max")  # it counts as failed
    has_failed = not result or (result.get("is_error") is True and not is_limit)
    return AgentOutput(
        text=str(result.get("result") or ""),
        cost=_number(result.get("total_cost_usd")),
        tokens=_sum(result.get("usage"), *_INPUT, "output_tokens"),
        turns=_whole(result.get("num_turns")),
        model=model or next(iter(_get(result, "modelUsage") or {}), ""),
        fault=str(result.get("result") or "it printed no result") if has_failed else "",
    )


def parse_codex(output: str) -> AgentOutput:
    texts: list[str] = []
    tokens, turns, fault = 0, 0, ""
    for line in _lines(output):
        match line.get("type"):
            case "item.completed" if _get(line, "item", "type") == "agent_message":
                texts.append(str(_get(line, "item", "text") or ""))
            case "item.completed":
                turns += 1
            case "turn.completed":
                tokens += _sum(line.get("usage"), "input_tokens", "output_tokens") or 0
            case "turn.failed" | "error":
                message = _get(line, "error", "message") or line.get("message")
                fault = str(message or "it failed")
            case _:
                pass
    fault = "" if tokens and texts else fault or "it printed no message"
    turns += len(texts)
    return AgentOutput(text="\n".join(texts), tokens=tokens or None, turns=turns, fault=fault)


def parse_gemini(output: str) -> AgentOutput:
    start = output.find("{")
    try:
        data = json.loads(output[start:]) if start >= 0 else {}
    except (ValueError, RecursionError):
        data = {}
    models = _get(data, "stats", "models") or {}
    tokens = [_sum(_get(model, "tokens"), "total") or 0 for model in models.values()]
    requests = [_sum(_get(model, "api"), "totalRequests") or 0 for model in models.values()]
    text, error = data.get("response"), _get(data, "error", "message")
    return AgentOutput(
        text=str(text or ""),
        tokens=sum(tokens) or None,
        turns=sum(requests) or None,
        model=next(iter(models), ""),
        fault=str(error or "" if text is not None else error or "it printed no response"),
    )


def parse_opencode(output: str) -> AgentOutput:
    texts: list[str] = []
    cost, tokens, turns, fault = 0.0, 0, 0, ""
    for line in _lines(output):
        part = line.get("part")
        match line.get("type"):
            case "text":
                texts.append(str(_get(part, "text") or ""))
            case "step_finish":
                turns += 1
                cost += _number(_get(part, "cost")) or 0.0
                tokens += _sum(_get(part, "tokens"), "input", "output", "reasoning") or 0
            case "error":
                fault = str(_get(line, "error", "data", "message") or "it failed")
            case _:
                pass
    fault = fault or ("" if texts or turns else "it printed no text")
    return AgentOutput(
        text="\n".join(texts), cost=cost, tokens=tokens or None, turns=turns, fault=fault
    )


def _connect_claude(_: Path, home: Path, server: Sequence[str]) -> tuple[str, ...]:
    file = home / "mcp.json"
    command = {"type": "stdio", "command": server[0], "args": list(server[1:])}
    file.write_text(json.dumps({"mcpServers": {SERVER_NAME: command}}))
    return ("--mcp-config", str(file), "--strict-mcp-config")


def _connect_codex(_: Path, __: Path, server: Sequence[str]) -> tuple[str, ...]:
    key = f"mcp_servers.{SERVER_NAME}"
    settings = {
        "command": json.dumps(server[0]),
        "args": json.dumps(list(server[1:])),
        "startup_timeout_sec": "60",
        "required": "true",
    }
    options = (("-c", f"{key}.{name}={value}") for name, value in settings.items())
    return tuple(word for option in options for word in option)


def _connect_gemini(_: Path, home: Path, server: Sequence[str]) -> tuple[str, ...]:
    command = {"command": server[0], "args": list(server[1:]), "trust": True}
    file = home / ".gemini/settings.json"
    file.parent.mkdir(exist_ok=True)
    settings = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**settings, "mcpServers": {SERVER_NAME: command}}))
    return ()


def _connect_opencode(_: Path, home: Path, server: Sequence[str]) -> tuple[str, ...]:
    command = {"type": "local", "command": list(server), "enabled": True}
    file = home / ".config/opencode/opencode.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    settings = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**settings, "mcp": {SERVER_NAME: command}}))
    return ()


_KNOWN: Mapping[AgentName, Agent] = {
    "claude": Agent(
        name="claude",
        words=(
            *("claude", "--output-format", "stream-json", "--verbose"),
            *("--dangerously-skip-permissions", "-p", PROMPT),
        ),
        parse=parse_claude,
        format="claude",
        folder=".claude/skills",
        model_words=("--model",),
        # It refuses to go without questions as root, unless it is told of a sandbox.
        variables={
            "IS_SANDBOX": "1",
            "DISABLE_AUTOUPDATER": "1",
            # The first turn waits for the server of the skills.
            "MCP_CONNECTION_NONBLOCKING": "0",
            "MCP_CONNECT_TIMEOUT_MS": "60000",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        connect=_connect_claude,
    ),
    "codex": Agent(
        name="codex",
        words=(
            *("codex", "exec", "--json", "--skip-git-repo-check"),
            *("--dangerously-bypass-approvals-and-sandbox", PROMPT),
        ),
        parse=parse_codex,
        model_words=("--model",),
        connect=_connect_codex,
    ),
    "gemini": Agent(
        name="gemini",
        words=("gemini", "--output-format", "json", "--yolo", "-p", PROMPT),
        parse=parse_gemini,
        format="gemini",
        folder=".gemini/skills",
        model_words=("--model",),
        variables={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        connect=_connect_gemini,
    ),
    "opencode": Agent(
        name="opencode",
        words=("opencode", "run", "--format", "json", PROMPT),
        parse=parse_opencode,
        model_words=("--model",),
        connect=_connect_opencode,
    ),
}


def choose_agent(name: AgentName | None, command: str | None, model: str) -> Agent:
    """Choose a known agent, a command, or a known agent with another command.

    Raises:
        ValueError: There is neither, or the command takes no task.
    """
    known = _KNOWN[name] if name else None
    if command is None and known is None:
        raise ValueError(
            f"Name an agent: --agent {'|'.join(AGENT_NAMES)}, or --command 'my-agent -p {PROMPT}'"
        )
    words = tuple(shlex.split(command)) if command else known.words if known else ()
    if not any(PROMPT in word for word in words):
        raise ValueError(f"--command needs {PROMPT} where the task belongs: my-agent -p {PROMPT}")
    own = known or Agent(name=shlex.join(words), words=words, parse=parse_plain)
    return Agent(
        name=own.name,
        words=words,
        parse=own.parse,
        format=own.format,
        folder=own.folder,
        model_words=own.model_words,
        model=model,
        variables=own.variables,
        connect=own.connect,
    )
