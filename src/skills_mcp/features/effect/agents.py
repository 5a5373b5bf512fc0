"""Known agents: command line, folder of skills, MCP settings, and format of their output.

Sources: code.claude.com/docs/en/headless, developers.openai.com/codex/noninteractive,
geminicli.com/docs/cli/headless, opencode.ai/docs/cli.

Each runs without asking for permission: the sandbox around it decides.
"""

import json
import shlex
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import click

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


Server = Sequence[str]
Connect = Callable[[Path, Server], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Command line of an agent, and the parser of its output."""

    name: str
    words: Sequence[str]
    """With `{prompt}` where the task belongs."""
    format: FolderFormat = "agents"
    folder: str = ".agents/skills"
    """Where it looks for skills in a project."""
    model: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    connect: "Connect | None" = None
    """Writes settings for an MCP server into HOME; gives more options."""

    def command_line(self, prompt: str, options: Sequence[str] = ()) -> tuple[str, ...]:
        """The words with the task; more options stand in front of the first one."""
        words = [word.replace(PROMPT, prompt) for word in self.words]
        firsts = (n for n, w in enumerate(self.words) if w[0] == "-" or PROMPT in w)
        model = ("--model", self.model) if self.model and self.connect else ()
        place = next(firsts, len(words))
        return (*words[:place], *model, *options, *words[place:])


OutputRules = Mapping[str, Mapping[str, str]]
"""For each type of event, fields of an answer by their paths; several are joined."""

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_PLAIN: OutputRules = {"": _DATA["plain_output"]}
_RULES: Mapping[str, OutputRules] = _DATA["output"]
_OF_PROGRESS = ["reasoning"], ["error"]
"""Types of Codex's items whose text is no answer."""


def parse_output(output: str, name: str) -> AgentOutput:
    """Parse the output of an agent; of a command, the last JSON object counts."""
    rules = _RULES.get(name)
    found: dict[str, list[Any]] = defaultdict(list)
    for event in list(_parse_events(output))[0 if rules else -1 :]:
        fields = (rules or _PLAIN).get(str(event.get("type", "")) if rules else "", {})
        for field_name, paths in fields.items():
            values = [v for path in paths.split() for v in _find(event, path)] if paths else [1]
            is_text = field_name in {"text", "model", "fault"}
            found[field_name] += [v for v in values if isinstance(v, str) == is_text]
        if event.get("is_error") is True and not str(event.get("subtype")).startswith("error_max"):
            found["fault"].append(str(event.get("result") or "it failed"))
    if rules and not (found["text"] or found["turns"]):
        found["fault"].append("it printed no answer")
    return AgentOutput(
        text="\n".join(found["text"]) if rules or found["text"] else output,
        cost=float(sum(found["cost"])) if found["cost"] else None,
        tokens=int(sum(found["tokens"])) if found["tokens"] else None,
        turns=int(sum(found["turns"])) if found["turns"] else None,
        model=next(iter(found["model"]), ""),
        fault=next(iter(found["fault"]), ""),
    )


def _parse_events(output: str) -> Iterator[Mapping[str, Any]]:
    """JSON objects, one over all lines or one a line; other lines are notices."""
    whole = output[output.find("{") : output.rfind("}") + 1]
    for text in (whole, *output.splitlines()):
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            if isinstance(value, dict) and _find(value, "item.type") not in _OF_PROGRESS:
                yield value
            if text is whole:
                return


def _find(value: Any, path: str) -> list[Any]:
    """Values at a path of names; `*` stands for each."""
    values = [value]
    for name in path.split("."):
        inner = [each for each in values if isinstance(each, dict)]
        values = [v for d in inner for v in (d.values() if name == "*" else [d.get(name)])]
    return [each for each in values if each is not None and not isinstance(each, bool)]


def _connect_claude(home: Path, server: Server) -> tuple[str, ...]:
    command = {"type": "stdio", "command": server[0], "args": list(server[1:])}
    file = _add_setting(home / "mcp.json", "mcpServers", command)
    return ("--mcp-config", str(file), "--strict-mcp-config")


def _connect_codex(_: Path, server: Server) -> tuple[str, ...]:
    settings = {
        "command": json.dumps(server[0]),
        "args": json.dumps(list(server[1:])),
        "startup_timeout_sec": "60",
        "required": "true",
    }
    options = (("-c", f"mcp_servers.{SERVER_NAME}.{k}={v}") for k, v in settings.items())
    return tuple(word for option in options for word in option)


def _connect_gemini(home: Path, server: Server) -> tuple[str, ...]:
    command = {"command": server[0], "args": list(server[1:]), "trust": True}
    _add_setting(home / ".gemini/settings.json", "mcpServers", command)
    return ()


def _connect_opencode(home: Path, server: Server) -> tuple[str, ...]:
    command = {"type": "local", "command": list(server), "enabled": True}
    _add_setting(home / ".config/opencode/opencode.json", "mcp", command)
    return ()


def _add_setting(file: Path, key: str, command: Mapping[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    settings = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**settings, key: {SERVER_NAME: command}}))
    return file


_CONNECT: Mapping[AgentName, Connect] = {
    "claude": _connect_claude,
    "codex": _connect_codex,
    "gemini": _connect_gemini,
    "opencode": _connect_opencode,
}


def parse_command_line(text: str, option: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}: {text}") from error


def choose_agent(name: AgentName | None, command: str | None, model: str) -> Agent:
    """Choose a known agent, a command, or a known agent with another command.

    Raises:
        UsageError: There is neither, or the command takes no task.
    """
    known = Agent(name=name, connect=_CONNECT[name], **_DATA["agents"][name]) if name else None
    if command is None and known is None:
        raise click.UsageError(
            f"Name an agent: --agent {'|'.join(AGENT_NAMES)}, or --command 'my-agent -p {PROMPT}'"
        )
    words = parse_command_line(command, "--command") if command else known.words if known else ()
    if not any(PROMPT in word for word in words):
        raise click.UsageError(
            f"--command needs {PROMPT} where the task belongs: my-agent -p {PROMPT}"
        )
    own = known or Agent(name=shlex.join(words), words=words)
    return replace(own, words=words, model=model)
