"""Checks of configured hosts: each server entry is started as its host does.

The handshake is plain JSON lines, independent of this server's own implementation.
"""

import json
import os
import queue
import re
import shlex
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Literal

from skills_mcp.about import NOTHING_TO_SERVE, __version__
from skills_mcp.errors import HostFileError
from skills_mcp.features.hosts.host import DEFAULT_NAME, HOSTS, Host, HostScope, find_exports
from skills_mcp.features.hosts.installation import HostFile, ParsedEntry
from skills_mcp.processes.group import GROUP_OPTIONS, kill_group
from skills_mcp.skills.source_layout import EXPORT_LOCK

Era = Literal["2025-11-25", "2026-07-28"]
ERAS: tuple[Era, ...] = ("2025-11-25", "2026-07-28")
"""Protocol revisions: the last one with `initialize`, and the first one with
`server/discover`.
"""

ANSWER_TIMEOUT_SECONDS = 30.0
"""Time-out of hosts for the first answer."""

_ENDING_SECONDS = 5.0
_CLIENT_INFO = {"name": "skills-mcp doctor", "version": __version__}
_MAX_PAGES = 50  # of a list of tools; more are a server that never ends it
_QUOTED = 300  # characters of what a server has written to its log


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    is_ok: bool
    message: str
    fix: str = ""
    """Command or instruction; empty if ok."""

    def render(self) -> dict[str, object]:
        """JSON representation."""
        values = asdict(self)
        return {"name": values.pop("name"), "ok": values.pop("is_ok"), **values}


def passed(name: str, message: str) -> CheckResult:
    return CheckResult(name, is_ok=True, message=message)


def failed(name: str, message: str, fix: str) -> CheckResult:
    return CheckResult(name, is_ok=False, message=message, fix=fix)


class HandshakeError(Exception):
    """A server did not start, or violated the protocol."""


class ProgramNotFoundError(HandshakeError):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeResult:
    era: Era
    seconds: float
    tools: tuple[str, ...]
    tool_characters: int
    """Length of the names, descriptions and arguments shown to the model."""
    instructions: str


def run_handshake(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    era: Era,
) -> HandshakeResult:
    """Start a server, run the handshake, and stop the server.  Blocking.

    Raises:
        ProgramNotFoundError: The program does not exist.
        HandshakeError: It does not start, exits, or does not answer.
    """
    began = time.monotonic()
    with _running_server(command, environment, folder) as talk:
        first = talk.request(*_compose_first_request(era))
        seconds = time.monotonic() - began
        if era == "2025-11-25":
            talk.notify("notifications/initialized")
        tools = list(_list_tools(talk, era))
    visible = [
        {key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in tools
    ]
    return HandshakeResult(
        era=era,
        seconds=seconds,
        tools=tuple(str(tool.get("name")) for tool in tools),
        tool_characters=sum(len(json.dumps(tool_view)) for tool_view in visible),
        instructions=str(first.get("instructions") or ""),
    )


class _JsonRpcClient:
    """JSON-RPC client over pipes, one message per line."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: IO[bytes]) -> None:
        self._process = process
        self._log = log
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def request(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Send a request, and wait for its result.

        Raises:
            HandshakeError: It timed out, or the answer is an error.
        """
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        while True:
            answer = self._next(method)
            if answer.get("id") == self._number:
                break
        if "error" in answer:
            raise HandshakeError(f"it refuses {method}: {answer['error']}")
        result: dict[str, Any] = answer.get("result") or {}
        return result

    def notify(self, method: str) -> None:
        self._write({"method": method})

    def _write(self, message: Mapping[str, object]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message})
        pipe = self._process.stdin
        try:
            if pipe:
                pipe.write(f"{line}\n".encode())
                pipe.flush()
        except OSError:
            return  # it has ended, and the wait for its answer says why

    def _next(self, method: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=ANSWER_TIMEOUT_SECONDS)
        except queue.Empty:
            raise HandshakeError(
                f"it has not answered {method} within {ANSWER_TIMEOUT_SECONDS:.0f} "
                f"seconds.{self._quote_log()}"
            ) from None
        if not line:
            status = self._process.wait()
            raise HandshakeError(f"it ended with status {status}.{self._quote_log()}")
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            printed = line.decode("utf-8", "replace").strip()[:_QUOTED]
            raise HandshakeError(f"it has printed what is no message of MCP: {printed}")
        return message

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(b"")

    def _quote_log(self) -> str:
        self._log.seek(0)
        logged = " ".join(self._log.read().decode("utf-8", "replace").split())
        return f" Its log ends with: {logged[-_QUOTED:]}" if logged else ""


@contextmanager
def _running_server(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Iterator[_JsonRpcClient]:
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - what a host would start
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(environment),
                cwd=folder,
                **GROUP_OPTIONS,
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise ProgramNotFoundError(
                f"{command[0]} cannot be started: {os.strerror(error.errno or 0)}"
            ) from error
        except (OSError, ValueError) as error:
            raise HandshakeError(f"it cannot be started: {error}") from error
        try:
            yield _JsonRpcClient(process, log)
        finally:
            _stop_process(process)


def _stop_process(process: "subprocess.Popen[bytes]") -> None:
    """Close stdin, as a host does, then kill the process group."""
    try:
        if process.stdin:
            process.stdin.close()
        process.wait(_ENDING_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        pass
    finally:
        kill_group(process.pid)
        process.wait()
        if process.stdout:
            process.stdout.close()


def _compose_first_request(era: Era) -> tuple[str, dict[str, object]]:
    if era == "2026-07-28":
        return "server/discover", _compose_metadata(era)
    return "initialize", {"protocolVersion": era, "capabilities": {}, "clientInfo": _CLIENT_INFO}


def _compose_metadata(era: Era) -> dict[str, object]:
    if era == "2025-11-25":
        return {}
    names = "io.modelcontextprotocol"
    about = {
        f"{names}/protocolVersion": era,
        f"{names}/clientCapabilities": {},
        f"{names}/clientInfo": _CLIENT_INFO,
    }
    return {"_meta": about}


def _list_tools(talk: _JsonRpcClient, era: Era) -> Iterator[Mapping[str, Any]]:
    cursor: dict[str, object] = {}
    for _ in range(_MAX_PAGES):
        page = talk.request("tools/list", {**_compose_metadata(era), **cursor})
        yield from (tool for tool in page.get("tools", ()) if isinstance(tool, dict))
        if not page.get("nextCursor"):
            return
        cursor = {"cursor": page["nextCursor"]}


_SCOPES: tuple[HostScope, ...] = ("user", "project")

_MAX_INSTRUCTIONS = 2_048
"""Minimum of instructions shown by Claude Code; the rest may be cut."""

_PASSED_VARIABLES = ("HOME", "PATH", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "USER", "TMPDIR")
"""Environment variables passed on by hosts that withhold the others."""

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

_SOURCE_OPTIONS = {"--skills-dir", "--repo", "--config"}
_ANY_SOURCE = "--repo URL"

EntryKind = Literal["user", "project", "local", "plugin"]
"""Scope of an entry; `local` is one person's in one project."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    file: HostFile
    name: str
    entry: ParsedEntry
    kind: EntryKind

    @property
    def title(self) -> str:
        suffix = "" if self.kind == "user" else f" ({self.kind})"
        return f"client {self.file.host.name}{suffix}"

    @property
    def options(self) -> tuple[str, ...]:
        words = self.entry.command
        positions = [n for n, word in enumerate(words) if _PROGRAM.fullmatch(Path(word).name)]
        typed = words[positions[0] + 1 :] if positions else ()
        variables = self.entry.environment
        named = (
            word
            for name, option in _OPTION_OF.items()
            if name in variables
            for word in (option, variables[name])
        )
        return (*typed, *named)

    @property
    def names_source(self) -> bool:
        """Whether it says itself what to serve; else the operator's settings do."""
        return any(word.partition("=")[0] in _SOURCE_OPTIONS for word in self.options)

    def compose_repair_command(self, source: str) -> str:
        """Command to rewrite this entry, with `source` if it has no options."""
        host = self.file.host.name
        name = "" if self.name == DEFAULT_NAME else f" --name {shlex.quote(self.name)}"
        words = shlex.join(self.options) or source
        options = f" {words}" if words else ""
        if self.kind == "plugin":
            how = f"--plugin {host} --to FOLDER"
            return f"skills-mcp install {how}{name}{options}, and install that again"
        scope = " --scope project" if self.kind == "project" else ""
        command = f"skills-mcp install --client {host}{scope}{name}{options} --yes"
        if self.kind == "local":
            return f"claude mcp remove {shlex.quote(self.name)} --scope local; {command}"
        return command


def find_host_entries(
    environment: Mapping[str, str], project: Path
) -> tuple[list[HostEntry], list[CheckResult]]:
    """Find this server's entries in the files of all hosts, and unreadable files."""
    entries: list[HostEntry] = []
    broken: list[CheckResult] = []
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
                entries += _find_ours(file, file.parse_local_entries(project), "local")
            except HostFileError as error:
                fix = f"Correct {file.path}; then: skills-mcp doctor"
                broken.append(failed(f"client {host.name}", str(error), fix))
        entries += _find_plugins(host, environment)
    return entries, broken


def _find_ours(
    file: HostFile, found: Mapping[str, ParsedEntry], kind: EntryKind
) -> Iterator[HostEntry]:
    for name, entry in found.items():
        if entry.is_ours if entry.command else name == DEFAULT_NAME:
            yield HostEntry(file, name, entry, kind)


def _find_plugins(host: Host, environment: Mapping[str, str]) -> Iterator[HostEntry]:
    """Entries of plugins; of each plugin, its newest version."""
    folder = host.find_folder(environment)
    newest: dict[Path, Path] = {}
    for pattern in host.plugin_files:
        for path in sorted(folder.glob(pattern), key=lambda file_path: file_path.stat().st_mtime):
            is_versioned = pattern.count("*") > 1
            newest[path.parent.parent if is_versioned else path] = path
    for path in newest.values():
        file = HostFile(host, path, "user")
        with suppress(HostFileError):  # it may be a plugin that has nothing to do with us
            yield from _find_ours(file, file.parse_entries(), "plugin")


def check_entries(
    entries: Sequence[HostEntry], environment: Mapping[str, str], project: Path, source: str
) -> Iterator[CheckResult]:
    """Start each entry as its host does, and describe the model's view.

    `source` are the options that a first entry would have.
    """
    known: dict[object, CheckResult] = {}
    for host_entry in entries:
        variables = build_server_environment(host_entry.file.host, host_entry.entry, environment)
        entry = host_entry.entry
        key = (entry.command, entry.url, tuple(sorted(variables.items())))
        if key not in known:
            known[key] = _check_entry(host_entry, variables, project)
        found = known[key]
        wanted = _ANY_SOURCE if found.fix == _ANY_SOURCE else ""
        fix = host_entry.compose_repair_command(wanted) if found.fix else ""
        message = f"{host_entry.file.path}: {found.message}"
        yield CheckResult(host_entry.title, found.is_ok, message, fix)
    if not entries:
        yield failed(
            "clients",
            "No agent on this machine has an entry for this server",
            f"skills-mcp install {source or _ANY_SOURCE}",
        )


def build_server_environment(
    host: Host, entry: ParsedEntry, environment: Mapping[str, str]
) -> dict[str, str]:
    """Environment of a server started by this host."""
    names = (*_PASSED_VARIABLES, *entry.forwarded) if host.variable else environment
    passed = {name: environment[name] for name in names if name in environment}

    def expand(found: re.Match[str]) -> str:
        name = found["braced"] or found["curly"] or found["bare"]
        default = found["default"]
        return environment.get(name, found[0] if default is None else default)

    expanded = {name: _REFERENCE.sub(expand, value) for name, value in entry.environment.items()}
    # What a check starts ends with it.
    return passed | expanded | {"SKILLS_MCP_SHARE": "0"}


def _check_entry(host_entry: HostEntry, variables: Mapping[str, str], project: Path) -> CheckResult:
    """Check one entry; a non-empty `fix` stands for its repair command, or says its source."""
    entry = host_entry.entry
    if entry.url:
        return _check_url(entry.url)
    try:
        greetings = [run_handshake(entry.command, variables, project, era) for era in ERAS]
    except ProgramNotFoundError as error:
        return failed("", str(error), "install")
    except HandshakeError as error:
        return failed("", f"{shlex.join(entry.command)} does not work: {error}", "install")
    newest = greetings[-1]
    if newest.instructions.startswith(NOTHING_TO_SERVE):
        return failed("", newest.instructions, _ANY_SOURCE)
    return passed("", _describe_greetings(greetings))


def _describe_greetings(greetings: Sequence[HandshakeResult]) -> str:
    newest = greetings[-1]
    length = len(newest.instructions)
    cut = ", of which some hosts cut the end" if length > _MAX_INSTRUCTIONS else ""
    answered = " and ".join(
        f"{greeting.seconds:.1f} s (MCP {greeting.era})" for greeting in greetings
    )
    return (
        f"the model sees {len(newest.tools)} tools with {newest.tool_characters:,} "
        f"characters and {length:,} characters of instructions{cut}; the first answer "
        f"took {answered}"
    )


def _check_url(url: str) -> CheckResult:
    if not url.startswith(("https://", "http://")):
        return failed("", f"{url} is no URL", "install")
    try:
        answer = ask_url(url)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return failed("", f"{url} cannot be reached: {reason}", "install")
    if answer.status in _SIGN_IN:
        return passed("", f"{url} asks the host to sign in ({answer.status})")
    if answer.status != HTTPStatus.OK:
        return failed("", f"{url} answers {answer.status} {answer.reason}", "install")
    return passed("", f"{url} answers ({answer.status})")


_SIGN_IN = frozenset({401, 403})

# Nothing is there, the method is wrong there, or it is elsewhere.
_ELSEWHERE = frozenset({301, 302, 303, 307, 308, 404, 405, 410})

# An error of ours has a few hundred.
_MAX_ANSWER_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class UrlAnswer:
    """Answer to the first request of a client."""

    status: int
    reason: str
    """Message of the server, or the name of the status."""
    content_type: str = ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether no client of MCP can work with this address."""
        is_page = self.status == HTTPStatus.OK and self.content_type == "text/html"
        return is_page or self.status in _ELSEWHERE


def ask_url(url: str, timeout_seconds: float = ANSWER_TIMEOUT_SECONDS) -> UrlAnswer:
    """Send the first request of a client.

    Raises:
        OSError, ValueError: The URL cannot be reached.
    """
    method, params = _compose_first_request(ERAS[0])
    opening = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accepted = "application/json, text/event-stream"
    headers = {"Content-Type": "application/json", "Accept": accepted}
    request = urllib.request.Request(  # noqa: S310 - callers look at the scheme
        url, json.dumps(opening).encode(), headers
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as reply:  # noqa: S310
            return UrlAnswer(reply.status, "", reply.headers.get_content_type())
    except urllib.error.HTTPError as error:
        with error:
            return UrlAnswer(error.code, _read_message(error.fp) or error.reason)


def _read_message(answer: IO[bytes]) -> str:
    """Message of a JSON-RPC error; empty if there is none."""
    try:
        return str(json.loads(answer.read(_MAX_ANSWER_BYTES))["error"]["message"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def check_native_folders(used: Iterable[str], home: Path, project: Path) -> Iterator[CheckResult]:
    """Find hosts with the skills both from the server and from an export."""
    names = frozenset(used)
    for folder, hosts in find_exports(home, project):
        for host in hosts:
            if host.name in names:
                yield failed(
                    f"twice {host.name}",
                    f"{host.title} gets each skill twice: from this server, and from {folder}, "
                    "which an export has written",
                    f"skills-mcp install --client {host.name} --remove --yes, or delete the "
                    f"packages that {folder / EXPORT_LOCK} names",
                )
