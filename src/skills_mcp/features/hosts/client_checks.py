"""Checks of what stands in the files of hosts: each entry is started, as they do it."""

import json
import os
import re
import shlex
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skills_mcp.about import NOTHING_TO_SERVE
from skills_mcp.errors import HostFileError
from skills_mcp.features.hosts.finding import Finding
from skills_mcp.features.hosts.handshake import (
    ERAS,
    PATIENCE_SECONDS,
    Greeting,
    HandshakeError,
    NoProgramError,
    greet,
)
from skills_mcp.features.hosts.host import HOSTS, Host
from skills_mcp.features.hosts.host_names import DEFAULT_NAME, HostScope
from skills_mcp.features.hosts.installation import HostFile
from skills_mcp.features.hosts.server_entry import FoundEntry

_SCOPES: tuple[HostScope, ...] = ("user", "project")

_LONGEST_INSTRUCTIONS = 2_048
"""What Claude Code has shown of instructions at least; it may cut the rest."""

_PASSED = ("HOME", "PATH", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "USER", "TMPDIR")
"""What a server gets from a host that keeps most variables back."""

_PROGRAM = re.compile(r"skills[-_]mcp(?:-server)?(?:@[\w.]+)?")

_REFERENCE = re.compile(
    r"\$\{(?:env:)?(?P<braced>\w+)(?::-(?P<default>[^}]*))?\}"
    r"|\{env:(?P<curly>\w+)\}|\$(?P<bare>\w+)"
)

_OPTION_OF = {
    "SKILLS_DIR": "--skills-dir",
    "SKILLS_REPO": "--repo",
    "SKILLS_BRANCH": "--branch",
    "SKILLS_REF": "--ref",
}


EntryKind = Literal["user", "project", "local", "plugin"]
"""Whose an entry is; `local` is that of one person in one project."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    """Our entry in the file of a host."""

    file: HostFile
    name: str
    entry: FoundEntry
    kind: EntryKind

    @property
    def title(self) -> str:
        """What a finding about it is called."""
        suffix = "" if self.kind == "user" else f" ({self.kind})"
        return f"client {self.file.host.name}{suffix}"

    @property
    def options(self) -> tuple[str, ...]:
        """The options that say where the skills are."""
        words = self.entry.command
        places = [
            n for n, word in enumerate(words) if _PROGRAM.fullmatch(Path(word).name)
        ]
        typed = words[places[0] + 1 :] if places else ()
        given = self.entry.environment
        named = (
            word
            for name, option in _OPTION_OF.items()
            if name in given
            for word in (option, given[name])
        )
        return (*typed, *named)

    def compose_repair(self) -> str:
        """Return the command that writes this entry anew."""
        host = self.file.host.name
        name = "" if self.name == DEFAULT_NAME else f" --name {shlex.quote(self.name)}"
        options = shlex.join(self.options) or "--repo URL"
        if self.kind == "plugin":
            how = f"--plugin {host} --to FOLDER"
            return f"skills-mcp install {how}{name} {options}, and install that again"
        scope = " --scope project" if self.kind == "project" else ""
        command = f"skills-mcp install --client {host}{scope}{name} {options} --yes"
        if self.kind == "local":
            return (
                f"claude mcp remove {shlex.quote(self.name)} --scope local; {command}"
            )
        return command


def find_entries(
    environment: Mapping[str, str], project: Path
) -> tuple[list[HostEntry], list[Finding]]:
    """Return our entries in the files of all hosts, and the files that are broken."""
    entries: list[HostEntry] = []
    broken: list[Finding] = []
    seen: set[tuple[str, Path]] = set()
    for host in HOSTS:
        for scope in _SCOPES:
            path = host.find_file(scope, environment, project)
            if (host.name, path) in seen:
                continue  # the project is the home
            seen.add((host.name, path))
            file = HostFile(host, path, scope)
            try:
                entries += _find_ours(file, file.parse_entries(), scope)
                local = file.parse_local_entries(project)
                entries += _find_ours(file, local, "local")
            except HostFileError as error:
                fix = f"Correct {file.path}; then: skills-mcp doctor"
                broken.append(Finding(f"client {host.name}", False, str(error), fix))  # noqa: FBT003
        entries += _find_plugins(host, environment)
    return entries, broken


def _find_ours(
    file: HostFile, found: Mapping[str, FoundEntry], kind: EntryKind
) -> Iterator[HostEntry]:
    for name, entry in found.items():
        if entry.is_ours if entry.command else name == DEFAULT_NAME:
            yield HostEntry(file, name, entry, kind)


def _find_plugins(host: Host, environment: Mapping[str, str]) -> Iterator[HostEntry]:
    """Return the entries of plugins; of each plugin, those of its newest version."""
    folder = host.find_folder(environment)
    newest: dict[Path, Path] = {}
    for pattern in host.plugin_files:
        for path in sorted(folder.glob(pattern), key=lambda each: each.stat().st_mtime):
            is_versioned = pattern.count("*") > 1
            newest[path.parent.parent if is_versioned else path] = path
    for path in newest.values():
        file = HostFile(host, path, "user")
        with suppress(
            HostFileError
        ):  # it may be a plugin that has nothing to do with us
            yield from _find_ours(file, file.parse_entries(), "plugin")


def check_entries(
    entries: Sequence[HostEntry], environment: Mapping[str, str], project: Path
) -> Iterator[Finding]:
    """Start each entry as its host does, and say what the model would see.

    Args:
        entries: What was found.
        environment: That of the person, of which each host passes on its share.
        project: The working directory of the servers.
    """
    known: dict[object, Finding] = {}
    for each in entries:
        variables = derive_variables(each.file.host, each.entry, environment)
        key = (each.entry.command, each.entry.url, tuple(sorted(variables.items())))
        if key not in known:
            known[key] = _check(each, variables, project)
        found = known[key]
        fix = each.compose_repair() if found.fix else ""
        yield Finding(
            each.title, found.is_ok, f"{each.file.path}: {found.message}", fix
        )
    if not entries:
        yield Finding(
            "clients",
            is_ok=False,
            message="No agent on this machine has an entry for this server",
            fix="skills-mcp install --repo URL",
        )


def derive_variables(
    host: Host, entry: FoundEntry, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a server that this host starts."""
    names = (*_PASSED, *entry.forwarded) if host.variable else environment
    passed = {name: environment[name] for name in names if name in environment}

    def expand(found: re.Match[str]) -> str:
        name = found["braced"] or found["curly"] or found["bare"]
        default = found["default"]
        return environment.get(name, found[0] if default is None else default)

    given = {
        name: _REFERENCE.sub(expand, value) for name, value in entry.environment.items()
    }
    return passed | given


def _check(each: HostEntry, variables: Mapping[str, str], project: Path) -> Finding:
    """Return what is to be said of an entry; any `fix` stands for its repair."""
    entry = each.entry
    if entry.url:
        return _check_url(entry.url)
    try:
        greetings = [greet(entry.command, variables, project, era) for era in ERAS]
    except NoProgramError as error:
        return Finding("", is_ok=False, message=str(error), fix="install")
    except HandshakeError as error:
        said = f"{shlex.join(entry.command)} does not work: {error}"
        return Finding("", is_ok=False, message=said, fix="install")
    newest = greetings[-1]
    if newest.instructions.startswith(NOTHING_TO_SERVE):
        return Finding("", is_ok=False, message=newest.instructions, fix="install")
    return Finding("", is_ok=True, message=_describe(greetings))


def _describe(greetings: Sequence[Greeting]) -> str:
    newest = greetings[-1]
    length = len(newest.instructions)
    cut = ", of which some hosts cut the end" if length > _LONGEST_INSTRUCTIONS else ""
    answered = " and ".join(f"{each.seconds:.1f} s ({each.era})" for each in greetings)
    return (
        f"the model sees {len(newest.tools)} tools with {newest.tool_characters:,} "
        f"characters and {length:,} characters of instructions{cut}; the first answer "
        f"took {answered}"
    )


def _check_url(url: str) -> Finding:
    """Ask a server over HTTP for its first answer."""
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": ERAS[0],
            "capabilities": {},
            "clientInfo": {"name": "skills-mcp doctor", "version": "1"},
        },
    }
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    if not url.startswith(("https://", "http://")):
        return Finding("", is_ok=False, message=f"{url} is no URL", fix="install")
    request = urllib.request.Request(  # noqa: S310 - the scheme was looked at
        url, json.dumps(opening).encode(), headers
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:  # noqa: S310
            return Finding("", is_ok=True, message=f"{url} answers ({reply.status})")
    except urllib.error.HTTPError as error:
        said = f"{url} answers {error.code} {error.reason}"
        if error.code in {401, 403}:
            said = f"{url} asks the host to sign in ({error.code})"
            return Finding("", is_ok=True, message=said)
        return Finding("", is_ok=False, message=said, fix="install")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        said = f"{url} cannot be reached: {os.fspath(str(reason))}"
        return Finding("", is_ok=False, message=said, fix="install")
