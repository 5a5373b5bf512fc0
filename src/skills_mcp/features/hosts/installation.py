"""What putting an entry into the file of a host changes, and the change itself.

Rule: nothing is written that a person has not seen, and a file that has changed since
is not written.
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
from skills_mcp.features.hosts.json_comments import UnfitTextError
from skills_mcp.features.hosts.server_entry import (
    FoundEntry,
    Server,
    merge_entry,
    parse_entry,
    render_entry,
)
from skills_mcp.files.durable import PRIVATE_MODE, replacing

_SHARED_MODE = 0o644  # a file of a project is for all who work in it


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file in which a host looks for servers."""

    host: Host
    path: Path
    scope: HostScope

    def read(self) -> str | None:
        """Return its text; None if it does not exist.

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

    def parse_local_entries(self, project: Path) -> Mapping[str, FoundEntry]:
        """Return the servers in it that are for one project alone.

        Claude Code keeps those of `claude mcp add` there, unless a scope is named.

        Raises:
            HostFileError: It cannot be read or parsed.
        """
        if self.host.is_toml:
            return {}
        projects = _parse(self, self.read() or "").get("projects")
        found = projects.get(os.fspath(project)) if isinstance(projects, dict) else None
        servers = found.get(self.host.section) if isinstance(found, dict) else None
        return _parse_all(self.host, servers if isinstance(servers, dict) else {})

    def parse_entries(self) -> Mapping[str, FoundEntry]:
        """Return the servers in it, by their names; none if there is no file.

        Raises:
            HostFileError: It cannot be read or parsed.
        """
        return _parse_all(self.host, _find_servers(self, self.read() or ""))


@dataclass(frozen=True, slots=True)
class HostChange:
    """A new text for the file of a host."""

    file: HostFile
    before: str | None
    """The text that was read; None if there was no file."""
    after: str | None
    """The text to write; None to delete the file."""

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after

    def compare(self) -> str:
        """Return the lines that change, in the way of `diff -u`."""
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
        """Write the file, in one step.

        Raises:
            HostFileError: It has changed since it was read, or cannot be written.
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
            with replacing(path, self._find_mode(path)) as handle:
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
    """Return what puts an entry into a file, or brings the one there up to date.

    Raises:
        HostFileError: The file cannot be parsed, or the name stands for another server.
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
    """Return what takes an entry out of a file; the file goes if nothing is left.

    Raises:
        HostFileError: The file cannot be parsed, or the name stands for another server.
    """
    before = file.read()
    known = _find_servers(file, before or "").get(name)
    if before is None or known is None:
        return HostChange(file, before, before)
    _require_ours(file, name, known)
    section = file.host.section
    if file.host.is_toml:
        after = toml_tables.remove(before, section, name)
        return HostChange(file, before, after if after.strip() else None)
    after = json_comments.remove(before, [section, name])
    return HostChange(file, before, None if json_comments.is_empty(after) else after)


def render_snippet(host: Host, name: str, server: Server) -> str:
    """Return the entry as a file of its own, for a person who adds it by hand."""
    entry = render_entry(host, server)
    if host.is_toml:
        return toml_tables.insert("", host.section, name, entry)
    nested = {host.section: {name: entry}}
    return f"{json.dumps(nested, indent=2, ensure_ascii=False)}\n"


def _insert(file: HostFile, text: str, name: str, entry: Mapping[str, Any]) -> str:
    section = file.host.section
    try:
        if file.host.is_toml:
            return toml_tables.insert(text, section, name, entry)
        return json_comments.insert(text, [section, name], entry)
    except UnfitTextError as error:
        raise _unfit(file, error) from error


def _find_servers(file: HostFile, text: str) -> Mapping[str, Any]:
    """Return the values of the section with the servers.

    Raises:
        HostFileError: It cannot be parsed, or is no table.
    """
    servers = _parse(file, text).get(file.host.section, {})
    if not isinstance(servers, Mapping):
        raise _unfit(file, f"{file.host.section} is no table")
    return servers


def _parse(file: HostFile, text: str) -> dict[str, Any]:
    try:
        parse = toml_tables.parse if file.host.is_toml else json_comments.parse
        return parse(text)
    except UnfitTextError as error:
        raise _unfit(file, error) from error


def _parse_all(host: Host, servers: Mapping[str, Any]) -> dict[str, FoundEntry]:
    found = {name: parse_entry(host, values) for name, values in servers.items()}
    return {name: entry for name, entry in found.items() if entry}


def _require_ours(file: HostFile, name: str, values: object) -> None:
    entry = parse_entry(file.host, values)
    if entry and not entry.is_ours:
        raise HostFileError(
            f"{file.path} has another server with the name {name!r}, which starts "
            f"{entry.command[0]}. Choose another name with --name"
        )


def _unfit(file: HostFile, reason: object) -> HostFileError:
    return HostFileError(
        f"{file.path} cannot be edited, as {file.host.title} would not read it either: "
        f"{reason}. Repair it, and try again"
    )
