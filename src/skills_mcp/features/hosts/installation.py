"""Install and uninstall the server in a host's file.

Rule: a person sees each change before it is written, and a file modified since then is
not written.
"""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from skills_mcp.errors import HostFileError
from skills_mcp.features.hosts import json_comments, toml_tables
from skills_mcp.features.hosts.host import Host
from skills_mcp.features.hosts.host_names import HostScope
from skills_mcp.features.hosts.json_comments import UnparsableTextError
from skills_mcp.features.hosts.server_entry import (
    ParsedEntry,
    Server,
    merge_entry,
    parse_entry,
    render_entry,
)
from skills_mcp.files.durable import PRIVATE_MODE, atomic_write

_SHARED_MODE = 0o644  # a file of a project is for all who work in it


@dataclass(frozen=True, slots=True)
class HostFile:
    host: Host
    path: Path
    scope: HostScope

    def read(self) -> str | None:
        """Read the text; None if missing.

        Raises:
            HostFileError: It cannot be read.
        """
        try:
            return self.path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise HostFileError(
                f"{self.path} cannot be read: {error}. Repair it, and try again"
            ) from error

    def parse_local_entries(self, project: Path) -> Mapping[str, ParsedEntry]:
        """Parse the entries for one project alone.

        `claude mcp add` writes there by default.

        Raises:
            HostFileError: It cannot be read or parsed.
        """
        if self.host.is_toml:
            return {}
        projects = _parse(self, self.read() or "").get("projects")
        found = projects.get(os.fspath(project)) if isinstance(projects, dict) else None
        servers = found.get(self.host.section) if isinstance(found, dict) else None
        return _parse_servers(self.host, servers if isinstance(servers, dict) else {})

    def parse_entries(self) -> Mapping[str, ParsedEntry]:
        """Parse the entries by name; empty without a file.

        Raises:
            HostFileError: It cannot be read or parsed.
        """
        return _parse_servers(self.host, _find_servers(self, self.read() or ""))


@dataclass(frozen=True, slots=True)
class HostChange:
    """Pending change of a host's file."""

    file: HostFile
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
        ended = (line if line.endswith("\n") else f"{line}\n" for line in lines)
        return "".join(ended)

    def apply(self) -> None:
        """Write the file atomically.

        Raises:
            HostFileError: It was modified since it was read, or cannot be written.
        """
        path = self.file.path
        if self.file.read() != self.before:
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


def plan_installation(file: HostFile, name: str, server: Server) -> HostChange:
    """Plan an inserted or updated entry.

    Raises:
        HostFileError: The file cannot be parsed, or the name belongs to another server.
    """
    before = file.read()
    known = _find_servers(file, before or "").get(name)
    if known is not None:
        _require_ours(file, name, known)
    entry = merge_entry(file.host, known, render_entry(file.host, server))
    if entry == known:
        return HostChange(file, before, before)
    return HostChange(file, before, _insert(file, before or "", name, entry))


def plan_removal(file: HostFile, name: str) -> HostChange:
    """Plan a removed entry; an otherwise empty file is deleted.

    Raises:
        HostFileError: The file cannot be parsed, or the name belongs to another server.
    """
    before = file.read()
    known = _find_servers(file, before or "").get(name)
    if before is None or known is None:
        return HostChange(file, before, before)
    _require_ours(file, name, known)
    section = file.host.section
    if file.host.is_toml:
        after = toml_tables.remove_toml_table(before, section, name)
        return HostChange(file, before, after if after.strip() else None)
    after = json_comments.remove_json_member(before, [section, name])
    return HostChange(file, before, None if json_comments.is_empty_json(after) else after)


def render_snippet(host: Host, name: str, server: Server) -> str:
    entry = render_entry(host, server)
    if host.is_toml:
        return toml_tables.insert_toml_table("", host.section, name, entry)
    nested = {host.section: {name: entry}}
    return f"{json.dumps(nested, indent=2, ensure_ascii=False)}\n"


def _insert(file: HostFile, text: str, name: str, entry: Mapping[str, Any]) -> str:
    section = file.host.section
    try:
        if file.host.is_toml:
            return toml_tables.insert_toml_table(text, section, name, entry)
        return json_comments.insert_json_member(text, [section, name], entry)
    except UnparsableTextError as error:
        raise _unparsable(file, error) from error


def _find_servers(file: HostFile, text: str) -> Mapping[str, Any]:
    """Table of servers; raises if it is no table."""
    servers = _parse(file, text).get(file.host.section, {})
    if not isinstance(servers, Mapping):
        raise _unparsable(file, f"{file.host.section} is no table")
    return servers


def _parse(file: HostFile, text: str) -> dict[str, Any]:
    try:
        parse = toml_tables.parse_toml_text if file.host.is_toml else json_comments.parse_json_text
        return parse(text)
    except UnparsableTextError as error:
        raise _unparsable(file, error) from error


def _parse_servers(host: Host, servers: Mapping[str, Any]) -> dict[str, ParsedEntry]:
    found = {name: parse_entry(host, values) for name, values in servers.items()}
    return {name: entry for name, entry in found.items() if entry}


def _require_ours(file: HostFile, name: str, values: object) -> None:
    entry = parse_entry(file.host, values)
    if entry and not entry.is_ours:
        raise HostFileError(
            f"{file.path} has another server with the name {name!r}, which starts "
            f"{entry.command[0]}. Choose another name with --name"
        )


def _unparsable(file: HostFile, reason: object) -> HostFileError:
    return HostFileError(
        f"{file.path} cannot be edited, as {file.host.title} would not read it either: "
        f"{reason}. Repair it, and try again"
    )
