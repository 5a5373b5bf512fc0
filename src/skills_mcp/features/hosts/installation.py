"""Install and uninstall the server in a host's file.

Rule: a person sees each change before it is written, and a file modified since then is
not written.
"""

import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any, ClassVar

from skills_mcp.about import __version__
from skills_mcp.errors import HostFileError
from skills_mcp.features.hosts import config_edits
from skills_mcp.features.hosts.early_commands.hook import (
    COMPACTION_EVENTS,
    EVENTS,
    SOURCE_VARIABLES,
)
from skills_mcp.features.hosts.host import (
    BY_NAME,
    HookHost,
    Host,
    HostScope,
    PluginHost,
    find_host,
)
from skills_mcp.files.durable import PRIVATE_MODE, atomic_write

_PROGRAM_NAME = re.compile(r"skills[-_]mcp")

_CREDENTIALS = ("GITHUB_TOKEN", "SSH_AUTH_SOCK")

# For a helper of Git, and for the socket of the server for all windows. Only a host
# that passes few variables needs them.
_SESSION = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")

_FORWARDED = (
    *_CREDENTIALS,
    *_SESSION,
    *("SKILLS_MCP_RUNTIME_DIR", "SKILLS_MCP_SHARE"),
    *("SKILLS_MCP_TOKEN_FILE", "SKILLS_MCP_HOME", "ANALYTICS_ENDPOINT"),
    *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
    *("ANALYTICS_TOKEN", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
    *("https_proxy", "http_proxy", "no_proxy"),
)
"""Variables a server may need and no option can replace."""


@dataclass(frozen=True, slots=True)
class StartedServer:
    command: Sequence[str]
    variables: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RemoteServer:
    url: str


Server = StartedServer | RemoteServer


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedEntry:
    """An entry parsed from a host's file."""

    command: tuple[str, ...] = ()
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its variables, with unexpanded references."""
    forwarded: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether it starts this program; any URL may."""
        return bool(self.url) or any(map(_PROGRAM_NAME.search, self.command))


def find_forwarded_variables(environment: Mapping[str, str], *, is_shared: bool) -> tuple[str, ...]:
    """Select the set variables to forward; a shared entry omits the proxies."""
    names = _CREDENTIALS if is_shared else _FORWARDED
    return tuple(name for name in names if environment.get(name))


def render_entry(host: Host, server: Server) -> dict[str, Any]:
    """Render an entry with a host's keys.

    >>> from skills_mcp.features.hosts.host import find_host
    >>> render_entry(find_host("cursor"), RemoteServer("https://skills.acme.com/mcp"))
    {'url': 'https://skills.acme.com/mcp'}
    """
    shape = host.shape
    if isinstance(server, RemoteServer):
        trailing = {} if host.is_toml else shape.trailing
        return {**shape.remote, "url": server.url, **trailing}
    program, *arguments = server.command
    words: dict[str, Any] = {"command": program, "args": arguments}
    if shape.is_one_list:
        words = {"command": [program, *arguments]}
    return {**shape.started, **words, **_render_variables(host, server.variables), **shape.trailing}


def merge_entry(host: Host, known: object, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a person's additions to an entry, such as a time-out.

    Command, URL and variables come from `entry`, and so do the sources: a variable of an
    earlier one would count more than the settings.
    """
    if not isinstance(known, Mapping):
        return dict(entry)
    replaced = {"type", "command", "args", "url", "httpUrl", "env_vars"}
    added = {key: value for key, value in known.items() if key not in replaced}
    merged = {**entry, **{key: added[key] for key in added if key not in entry}}
    variables = host.shape.environment
    if isinstance(theirs := added.get(variables), Mapping):
        kept = {name: theirs[name] for name in theirs if name not in SOURCE_VARIABLES}
        merged[variables] = {**kept, **entry.get(variables, {})}
    return merged


def parse_entry(host: Host, values: object) -> ParsedEntry | None:
    """Parse an entry; None without a command or URL."""
    if not isinstance(values, Mapping):
        return None
    url = values.get("url") or values.get("httpUrl")
    if isinstance(url, str):
        return ParsedEntry(url=url)
    command, arguments = values.get("command"), values.get("args") or []
    words = command if isinstance(command, list) else [command, *arguments]
    if not words or not all(isinstance(word, str) for word in words):
        return None
    found = values.get(host.shape.environment)
    pairs = found.items() if isinstance(found, Mapping) else ()
    names = values.get("env_vars") or []
    return ParsedEntry(
        command=tuple(words),
        environment={str(name): str(value) for name, value in pairs},
        forwarded=tuple(map(str, names)) if isinstance(names, list) else (),
    )


def _render_variables(host: Host, names: Sequence[str]) -> dict[str, Any]:
    if not names or not host.variable:
        return {}
    if host.variable == BY_NAME:
        return {"env_vars": list(names)}
    named = [name for name in names if name not in _SESSION]
    references = {name: host.variable.replace("NAME", name) for name in named}
    return {host.shape.environment: references} if references else {}


_SHARED_MODE = 0o644  # a file of a project is for all who work in it


@dataclass(frozen=True, slots=True)
class HostFile:
    host: Host
    path: Path
    scope: HostScope

    @property
    def title(self) -> str:
        return self.host.title

    def parse_local_entries(self, project: Path) -> Mapping[str, ParsedEntry]:
        """Parse the entries for one project alone.

        `claude mcp add` writes there by default.

        Raises:
            HostFileError: It cannot be read or parsed.
        """
        projects = _parse(self, _read_text(self.path) or "").get("projects")
        found = projects.get(os.fspath(project)) if isinstance(projects, dict) else None
        servers = found.get(self.host.section) if isinstance(found, dict) else None
        return _parse_servers(self.host, servers if isinstance(servers, dict) else {})

    def parse_entries(self) -> Mapping[str, ParsedEntry]:
        """Parse the entries by name; empty without a file.

        Raises:
            HostFileError: It cannot be read or parsed.
        """
        return _parse_servers(self.host, _find_servers(self, _read_text(self.path) or ""))


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The operator's `config.yaml`."""

    path: Path
    title: ClassVar[str] = "Your settings"
    scope: ClassVar[HostScope] = "user"


def _read_text(path: Path) -> str | None:
    """Read a file; None if missing.

    Raises:
        HostFileError: It cannot be read.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise HostFileError(f"{path} cannot be read: {error}. Repair it, and try again") from error


@dataclass(frozen=True, slots=True)
class FileChange:
    """Pending change of a host's file, or of the settings."""

    file: HostFile | SettingsFile
    before: str | None
    """None if there was no file."""
    after: str | None
    """None to delete the file."""

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    def compare(self) -> str:
        name = str(self.file.path)
        lines = unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            os.devnull if self.before is None else name,
            os.devnull if self.after is None else name,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def apply(self) -> None:
        """Write the file atomically.

        Raises:
            HostFileError: It was modified since it was read, or cannot be written.
        """
        path = self.file.path
        if _read_text(self.file.path) != self.before:
            raise HostFileError(
                f"{path} was changed by another program meanwhile, so nothing was "
                "written. Call it again"
            )
        try:
            # A link may lead to a folder of settings that is kept elsewhere.
            path = path.resolve()
            if self.after is None:
                path.unlink()
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path, self._find_mode(path)) as handle:
                handle.write(self.after.encode("utf-8"))
        except OSError as error:
            raise HostFileError(
                f"{path} cannot be written: {error.strerror}. Repair its permissions, "
                "or add what --print shows by hand"
            ) from error

    def _find_mode(self, path: Path) -> int:
        if self.before is not None:
            return stat.S_IMODE(path.stat().st_mode)
        return PRIVATE_MODE if self.file.scope == "user" else _SHARED_MODE


def plan_installation(file: HostFile, name: str, server: Server) -> FileChange:
    """Plan an inserted or updated entry.

    Raises:
        HostFileError: The file cannot be parsed, or the name belongs to another server.
    """
    before, known = _read_entry(file, name)
    entry = merge_entry(file.host, known, render_entry(file.host, server))
    if entry == known:
        return FileChange(file, before, before)
    return FileChange(file, before, _insert(file, before or "", name, entry))


def plan_removal(file: HostFile, name: str) -> FileChange:
    """Plan a removed entry; an otherwise empty file is deleted.

    Raises:
        HostFileError: The file cannot be parsed, or the name belongs to another server.
    """
    before, known = _read_entry(file, name)
    if before is None or known is None:
        return FileChange(file, before, before)
    section = file.host.section
    if file.host.is_toml:
        after = config_edits.remove_toml_table(before, section, name)
        return FileChange(file, before, after if after.strip() else None)
    after = config_edits.remove_json_member(before, [section, name])
    return FileChange(file, before, None if config_edits.is_empty_json(after) else after)


def plan_settings(file: SettingsFile, values: Mapping[str, Any]) -> FileChange:
    """Plan the settings that an installation writes; none without values.

    Raises:
        HostFileError: The file cannot be edited, or has other sources.
    """
    before = _read_text(file.path)
    if not values:
        return FileChange(file, before, before)
    text = before or ""
    try:
        rest = config_edits.parse_yaml_text(config_edits.remove_yaml_block(text))
        written = {**config_edits.parse_yaml_text(config_edits.find_yaml_block(text)), **values}
        missing = {key: value for key, value in written.items() if not _holds(rest, key, value)}
        if taken := missing.keys() & rest.keys():
            raise HostFileError(_describe_taken(file, taken.pop(), missing))
        after = config_edits.set_yaml_block(text, missing) if missing else before
    except config_edits.UnparsableTextError as error:
        reason = f"{file.path} cannot be edited: {error}"
        raise HostFileError(f"{reason}. Repair it, and try again") from error
    return FileChange(file, before, after)


def _holds(known: Mapping[str, Any], key: str, value: object) -> bool:
    found = known.get(key)
    if key != "sources" or not isinstance(found, list) or not isinstance(value, list):
        return key in known and found == value
    listed = [each for each in found if isinstance(each, Mapping)]
    return all(any(source.items() <= each.items() for each in listed) for source in value)


def _describe_taken(file: SettingsFile, key: str, values: Mapping[str, Any]) -> str:
    more = ", with a mount" if key == "sources" else ""
    return (
        f"{file.path} has {key} already, which only you can change. Write "
        f"{json.dumps(values[key], ensure_ascii=False)} there{more}; then: skills-mcp install"
    )


def plan_settings_removal(file: SettingsFile) -> FileChange:
    """Plan the removal of our lines; an empty file is deleted."""
    before = _read_text(file.path)
    if before is None or not config_edits.find_yaml_block(before):
        return FileChange(file, before, before)
    after = config_edits.remove_yaml_block(before)
    return FileChange(file, before, after if after.strip() else None)


def render_snippet(host: Host, name: str, server: Server) -> str:
    entry = render_entry(host, server)
    if host.is_toml:
        return config_edits.insert_toml_table("", host.section, name, entry)
    nested = {host.section: {name: entry}}
    return f"{json.dumps(nested, indent=2, ensure_ascii=False)}\n"


def _insert(file: HostFile, text: str, name: str, entry: Mapping[str, Any]) -> str:
    section = file.host.section
    try:
        if file.host.is_toml:
            return config_edits.insert_toml_table(text, section, name, entry)
        return config_edits.insert_json_member(text, [section, name], entry)
    except config_edits.UnparsableTextError as error:
        raise _unparsable(file, error) from error


def _find_servers(file: HostFile, text: str) -> Mapping[str, Any]:
    """Table of servers; raises if it is no table."""
    servers = _parse(file, text).get(file.host.section, {})
    if not isinstance(servers, Mapping):
        raise _unparsable(file, f"{file.host.section} is no table")
    return servers


def _parse(file: HostFile, text: str) -> dict[str, Any]:
    try:
        if file.host.is_toml:
            return config_edits.parse_toml_text(text)
        return config_edits.parse_json_text(text, file.host.refused.get(file.scope, ()))
    except config_edits.UnparsableTextError as error:
        raise _unparsable(file, error) from error


def _parse_servers(host: Host, servers: Mapping[str, Any]) -> dict[str, ParsedEntry]:
    found = {name: parse_entry(host, values) for name, values in servers.items()}
    return {name: entry for name, entry in found.items() if entry}


def _read_entry(file: HostFile, name: str) -> tuple[str | None, object]:
    """Text of a file and its entry of this name; raises if that is another server's."""
    before = _read_text(file.path)
    known = _find_servers(file, before or "").get(name)
    entry = parse_entry(file.host, known)
    if entry and not entry.is_ours:
        raise HostFileError(
            f"{file.path} has another server with the name {name!r}, which starts "
            f"{entry.command[0]}. Choose another name with --name"
        )
    return before, known


def _unparsable(file: HostFile, reason: object) -> HostFileError:
    return HostFileError(
        f"{file.path} cannot be edited, as {file.host.title} would not read it either: "
        f"{reason}. Repair it, and try again"
    )


_HOOK_SECONDS = 10
"""For a first prompt without a running server; later ones take 0.1 s."""


@dataclass(frozen=True, slots=True)
class HookFile(HostFile):
    """A host's file with hooks, perhaps the one with its servers."""

    def plan(self, known: FileChange | None, hooks: Mapping[str, Mapping[str, Any]]) -> FileChange:
        """Plan our hooks in place of those that there are; without any, their removal.

        Args:
            known: The change of the same file that comes before.
            hooks: Entries by event.

        Raises:
            HostFileError: The file cannot be parsed.
        """
        before = known.before if known else _read_text(self.path)
        text = known.after if known else before
        after = self._edit(text or "", hooks) if hooks or self._is_ours(text) else text
        return FileChange(known.file if known else self, before, after)

    def _edit(self, text: str, hooks: Mapping[str, Mapping[str, Any]]) -> str | None:
        try:
            refused = self.host.refused.get(self.scope, ())
            found = config_edits.parse_json_text(text, refused).get("hooks", {})
            for event in dict.fromkeys((*hooks, *found)):
                kept = [each for each in found.get(event, ()) if not self._is_ours(each)]
                entries = [*kept, hooks[event]] if event in hooks else kept
                if not entries:
                    text = config_edits.remove_json_member(text, ["hooks", event])
                elif entries != found.get(event):
                    text = config_edits.insert_json_member(text, ["hooks", event], entries)
            return self._set_version(text)
        except (config_edits.UnparsableTextError, AttributeError, TypeError) as error:
            raise _unparsable(self, error) from error

    def _set_version(self, text: str) -> str | None:
        """The number of the format, which Copilot CLI wants; None for an empty text."""
        rest = {**config_edits.parse_json_text(text)}
        if self.host.name != "copilot":
            return None if config_edits.is_empty_json(text) else text
        if not rest.keys() - {"version"}:
            return None
        return text if "version" in rest else config_edits.insert_json_member(text, ["version"], 1)

    def _is_ours(self, entry: object) -> bool:
        command = rf"skills[-_]mcp[^ ]* hook {self.host.name}\b"
        return re.search(command, json.dumps(entry)) is not None


def find_hook_files(
    files: Sequence[HostFile], environment: Mapping[str, str], project: Path
) -> Iterator[HookFile]:
    """Yield the file with the hooks of each host that has some."""
    for file in files:
        if path := file.host.find_hook_file(file.scope, environment, project):
            yield HookFile(file.host, path, file.scope)


def render_hooks(host: HookHost, server: Server, name: str) -> dict[str, dict[str, Any]]:
    """Render the entry of each event; none for a remote server."""
    if not isinstance(server, StartedServer):
        return {}
    command = _compose_hook(server, host)
    if host == "copilot":
        hook = {"type": "command", "bash": command, "timeoutSec": _HOOK_SECONDS}
        return dict.fromkeys((EVENTS[host], *COMPACTION_EVENTS[host]), hook)
    seconds = _HOOK_SECONDS * 1000 if host == "gemini" else _HOOK_SECONDS
    named = {"name": name} if host == "gemini" else {}
    hook = {**named, "type": "command", "command": command, "timeout": seconds}
    events = {EVENTS[host]: "", **COMPACTION_EVENTS[host]}
    return {
        event: {**({"matcher": source} if source else {}), "hooks": [hook]}
        for event, source in events.items()
    }


def _compose_hook(server: StartedServer, host: HookHost) -> str:
    words = list(server.command)
    position = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    if words[position : position + 2] == ["-m", "skills_mcp"]:
        position += 2
    return shlex.join([*words[:position], "hook", host, *words[position:]])


MARKETPLACE = "skills-mcp"

_DESCRIPTION = "The engineering rules of your organisation, for each task"
_COMMAND = "Work by the rules of your organisation for a task"
_HOOK_FILE = "hooks/hooks.json"
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

    The folder may be new, empty, or hold an earlier version; only `may_replace` overwrites
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
        if _HOOK_FILE not in files:
            (folder / _HOOK_FILE).unlink(missing_ok=True)
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
    if isinstance(plugin.server, StartedServer):
        yield _HOOK_FILE, _render_hook_file(plugin, "claude-code")
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
    if isinstance(plugin.server, StartedServer):
        yield _HOOK_FILE, _render_hook_file(plugin, "gemini")
    text = _PROMPT.format(task="{{args}}")
    head = f"description = {json.dumps(_COMMAND)}\n"
    yield "commands/skill.toml", f'{head}prompt = """\n{text}"""\n'


def _render_servers(plugin: Plugin, host: PluginHost) -> dict[str, Any]:
    entry = render_entry(find_host(host), plugin.server)
    return {"mcpServers": {plugin.name: entry}}


def _render_hook_file(plugin: Plugin, host: PluginHost) -> dict[str, Any]:
    hooks = render_hooks(host, plugin.server, plugin.name)
    return {"hooks": {event: [entry] for event, entry in hooks.items()}}


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
    # A path without a slash in front is a repository at GitHub to Claude Code.
    quoted = shlex.quote(str(folder.absolute()))
    if host == "gemini":
        return [f"gemini extensions install {quoted}"]
    return [
        f"claude plugin marketplace add {quoted}",
        f"claude plugin install {name}@{MARKETPLACE}",
    ]
