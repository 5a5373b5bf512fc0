"""Plugin for Claude Code and extension for Gemini CLI.

Each contains the server, the prompt hook, and the command `/skill`.
"""

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skills_mcp.about import __version__
from skills_mcp.errors import HostFileError
from skills_mcp.features.hosts.host import find_host
from skills_mcp.features.hosts.host_names import PluginHost
from skills_mcp.features.hosts.prompt_hook import EVENTS
from skills_mcp.features.hosts.server_entry import Server, StartedServer, render_entry
from skills_mcp.files.durable import atomic_write

MARKETPLACE = "skills-mcp"

_DESCRIPTION = "The engineering rules of your organisation, for each task"
_COMMAND = "Work by the rules of your organisation for a task"

_HOOK_SECONDS = 10
"""For a first prompt without a running server; later ones take 0.1 s."""

_PLUGIN_MODE = 0o644
_DIGEST_DIGITS = 8

_PROMPT = """\
Find the rules of this organisation for the task below, and follow them.

1. Call the MCP tool `get_skill` with the task as `context`.
2. If the reply is ambiguous, choose the candidate that fits, and call it again with the
   `skill_path` of that one.
3. If no skill matches, say so, and go on without one.
4. Fetch the files that the skill names with `get_asset`, as you need them.

The task: {task}
"""

_MANIFESTS: Mapping[PluginHost, str] = {
    "claude-code": ".claude-plugin/plugin.json",
    "gemini": "gemini-extension.json",
}


@dataclass(frozen=True, slots=True)
class Plugin:
    name: str
    server: Server

    @property
    def version(self) -> str:
        """Program version with a digest of the configuration.

        Hosts cache a plugin until its version changes.
        """
        digest = hashlib.sha256(repr((self.name, self.server)).encode()).hexdigest()
        return f"{__version__}+{digest[:_DIGEST_DIGITS]}"

    def compose_hook(self, host: PluginHost) -> str:
        """Command of the prompt hook; empty for a remote server."""
        if not isinstance(self.server, StartedServer):
            return ""
        words = list(self.server.command)
        position = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
        if words[position : position + 2] == ["-m", "skills_mcp"]:
            position += 2
        return shlex.join([*words[:position], "hook", host, *words[position:]])


def render_plugin(plugin: Plugin, host: PluginHost) -> dict[str, str]:
    render = _render_for_claude if host == "claude-code" else _render_for_gemini
    return {
        name: content if isinstance(content, str) else _dump(content)
        for name, content in render(plugin)
    }


def write_plugin(
    folder: Path, host: PluginHost, files: Mapping[str, str], *, may_replace: bool
) -> None:
    """Write a plugin into a folder, created if missing.

    The folder may be new, empty, or hold an earlier version; only `may_replace`
    overwrites
    modified files.

    Raises:
        HostFileError: The folder holds something else, or cannot be written.
    """
    try:
        changed = list(_find_changed(folder, host, files))
        if changed and not may_replace:
            raise HostFileError(
                f"{folder} has other versions of {', '.join(changed)}, so nothing was "
                "written. Call it again with --yes to replace them"
            )
        for name, content in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(file, _PLUGIN_MODE) as handle:
                handle.write(content.encode("utf-8"))
        for name in _find_obsolete(folder, files):
            (folder / name).unlink()
    except OSError as error:
        raise HostFileError(f"{folder} cannot be written: {error}") from error


def _find_changed(folder: Path, host: PluginHost, files: Mapping[str, str]) -> Iterator[str]:
    """Yield existing files with another content; raises if the folder is no plugin."""
    is_used = folder.exists() and any(folder.iterdir())
    if is_used and not (folder / _MANIFESTS[host]).is_file():
        raise HostFileError(
            f"{folder} holds other files. Name a folder that is new or empty with --to"
        )
    for name, content in files.items():
        with suppress(FileNotFoundError):
            if (folder / name).read_text("utf-8", "replace") != content:
                yield name


def _find_obsolete(folder: Path, files: Mapping[str, str]) -> Iterator[str]:
    hook = "hooks/hooks.json"
    if hook not in files and (folder / hook).is_file():
        yield hook


def _render_for_claude(plugin: Plugin) -> Iterator[tuple[str, Any]]:
    about = {"name": plugin.name, "version": plugin.version}
    about |= {"description": _DESCRIPTION}
    owner = {"name": MARKETPLACE}
    yield _MANIFESTS["claude-code"], {**about, "author": owner}
    yield (
        ".claude-plugin/marketplace.json",
        {
            "name": MARKETPLACE,
            "owner": owner,
            "metadata": {"description": _DESCRIPTION},
            "plugins": [{**about, "source": "./"}],
        },
    )
    yield ".mcp.json", _render_servers(plugin, "claude-code")
    if command := plugin.compose_hook("claude-code"):
        hook = {"type": "command", "command": command, "timeout": _HOOK_SECONDS}
        yield "hooks/hooks.json", _render_hooks("claude-code", hook)
    head = f"description: {_COMMAND}\nargument-hint: TASK\n"
    text = _PROMPT.format(task="$ARGUMENTS")
    yield "commands/skill.md", f"---\n{head}---\n\n{text}"


def _render_for_gemini(plugin: Plugin) -> Iterator[tuple[str, Any]]:
    manifest: dict[str, Any] = {
        "name": plugin.name,
        "version": plugin.version,
        "description": _DESCRIPTION,
        **_render_servers(plugin, "gemini"),
    }
    if isinstance(plugin.server, StartedServer):
        # An extension gets no variable that its settings do not name.
        settings = [_render_setting(name) for name in plugin.server.variables]
        manifest |= {"settings": settings} if settings else {}
    yield _MANIFESTS["gemini"], manifest
    if command := plugin.compose_hook("gemini"):
        hook = {
            "name": plugin.name,
            "type": "command",
            "command": command,
            "timeout": _HOOK_SECONDS * 1000,
        }
        yield "hooks/hooks.json", _render_hooks("gemini", hook)
    text = _PROMPT.format(task="{{args}}")
    head = f"description = {json.dumps(_COMMAND)}\n"
    yield "commands/skill.toml", f'{head}prompt = """\n{text}"""\n'


def _render_servers(plugin: Plugin, host: PluginHost) -> dict[str, Any]:
    entry = render_entry(find_host(host), plugin.server)
    return {"mcpServers": {plugin.name: entry}}


def _render_hooks(host: PluginHost, hook: Mapping[str, object]) -> dict[str, Any]:
    return {"hooks": {EVENTS[host]: [{"hooks": [hook]}]}}


def _render_setting(variable: str) -> dict[str, object]:
    return {
        "name": variable,
        "description": f"The variable {variable} of the skills server",
        "envVar": variable,
        "sensitive": variable.endswith("TOKEN"),
    }


def _dump(content: object) -> str:
    return f"{json.dumps(content, indent=2, ensure_ascii=False)}\n"


def list_install_commands(host: PluginHost, name: str, folder: Path) -> Sequence[str]:
    """Commands to install a plugin in its host."""
    quoted = shlex.quote(str(folder))
    if host == "gemini":
        return [f"gemini extensions install {quoted}"]
    return [
        f"claude plugin marketplace add {quoted}",
        f"claude plugin install {name}@{MARKETPLACE}",
    ]
