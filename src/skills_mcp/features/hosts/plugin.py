"""A plugin for Claude Code and an extension for Gemini CLI, made of the same facts.

Each brings the server, the hook that names the skill for a prompt, and the command
`/skill`.
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
from skills_mcp.files.durable import replacing

MARKETPLACE = "skills-mcp"
"""What the folder of a plugin is called as a marketplace of one plugin."""

_DESCRIPTION = "The engineering rules of your organisation, for each task"
_COMMAND = "Work by the rules of your organisation for a task"

_HOOK_SECONDS = 10
"""For a first prompt, while no server runs yet; later ones take a tenth of a second."""

_SHARED_MODE = 0o644
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
    """The facts that every plugin is made of."""

    name: str
    server: Server

    @property
    def version(self) -> str:
        """The version of the program, and a digest of what the plugin starts.

        Hosts keep a plugin until its version is another one.
        """
        digest = hashlib.sha256(repr((self.name, self.server)).encode()).hexdigest()
        return f"{__version__}+{digest[:_DIGEST_DIGITS]}"

    def compose_hook(self, host: PluginHost) -> str:
        """Return the command of the hook; empty for a server at a URL."""
        if not isinstance(self.server, StartedServer):
            return ""
        words = list(self.server.command)
        place = next(
            (n for n, word in enumerate(words) if word.startswith("-")), len(words)
        )
        if words[place : place + 2] == ["-m", "skills_mcp"]:
            place += 2
        return shlex.join([*words[:place], "hook", host, *words[place:]])


def render_plugin(plugin: Plugin, host: PluginHost) -> dict[str, str]:
    """Return the files of a plugin, by their paths within its folder."""
    render = _render_for_claude if host == "claude-code" else _render_for_gemini
    return {
        name: content if isinstance(content, str) else _dump(content)
        for name, content in render(plugin)
    }


def write_plugin(
    folder: Path, host: PluginHost, files: Mapping[str, str], *, may_replace: bool
) -> None:
    """Write the files of a plugin into a folder, which is made if it is missing.

    Args:
        folder: New, empty, or the folder of an earlier version.
        host: Of which host it is.
        files: What `render_plugin` has returned.
        may_replace: Whether files with another content are replaced.

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
            with replacing(file, _SHARED_MODE) as handle:
                handle.write(content.encode("utf-8"))
        for name in _find_obsolete(folder, files):
            (folder / name).unlink()
    except OSError as error:
        raise HostFileError(f"{folder} cannot be written: {error}") from error


def _find_changed(
    folder: Path, host: PluginHost, files: Mapping[str, str]
) -> Iterator[str]:
    """Yield the files that are there with another content.

    Raises:
        HostFileError: The folder holds files, and is no plugin of this host.
    """
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
    """Yield what an earlier version had and this one has not."""
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


def advise_use(host: PluginHost, name: str, folder: Path) -> Sequence[str]:
    """Return the commands that bring a plugin into its host."""
    place = shlex.quote(str(folder))
    if host == "gemini":
        return [f"gemini extensions install {place}"]
    return [
        f"claude plugin marketplace add {place}",
        f"claude plugin install {name}@{MARKETPLACE}",
    ]
