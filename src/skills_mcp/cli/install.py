"""`skills-mcp install`: add or remove entries in the files of hosts."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.bootstrap import Options, build, find_url_secret
from skills_mcp.cli.terminal import print_json
from skills_mcp.errors import ConfigError, HostFileError
from skills_mcp.features.hosts.host import HOSTS, Host, find_host, find_project
from skills_mcp.features.hosts.host_names import HostName, HostScope, PluginHost
from skills_mcp.features.hosts.installation import (
    HostChange,
    HostFile,
    Plugin,
    RemoteServer,
    Server,
    StartedServer,
    find_forwarded_variables,
    list_install_commands,
    plan_installation,
    plan_removal,
    render_plugin,
    render_snippet,
    write_plugin,
)

_PROGRAM = "skills-mcp"

# Where uv keeps what `uvx` runs; the next start may find another folder.
_PASSING = ("archive-v0", "environments-v2")

_COLOURS = {"+": "green", "-": "red"}


@dataclass(frozen=True, slots=True)
class InstallOptions:
    clients: tuple[HostName, ...]
    scope: HostScope
    is_printed: bool
    is_removed: bool
    url: str | None
    name: str
    plugin: PluginHost | None
    folder: Path | None
    is_confirmed: bool
    as_json: bool


def run_install(options: Options, environment: Mapping[str, str], request: InstallOptions) -> None:
    """Add, update or remove the entry of each host, and print the result.

    Raises:
        ConfigError: The entry would start a server without skills.
        HostFileError: A file cannot be changed, or the user has not agreed.
        UsageError: The options exclude each other.
    """
    if request.is_removed and (request.is_printed or request.url):
        raise click.UsageError("--remove excludes --print and --http.")
    if request.plugin or request.folder:
        _write_plugin(options, environment, request)
        return
    hosts = _choose_hosts(request, environment)
    if request.is_removed:
        _apply(_plan_removals(hosts, request, environment), request)
        return
    server = _compose_server(options, environment, request)
    files = [_find_file(host, request.scope, environment) for host in hosts]
    if request.is_printed:
        _print_snippets(files, request, server)
        return
    _apply([plan_installation(file, request.name, server) for file in files], request)


def _write_plugin(
    options: Options, environment: Mapping[str, str], request: InstallOptions
) -> None:
    if request.plugin is None or request.folder is None:
        raise click.UsageError("--plugin and --to go together.")
    if request.clients or request.is_printed or request.is_removed:
        raise click.UsageError("--plugin excludes --client, --print and --remove.")
    # Other people install it, each on a machine of their own.
    shared = replace(request, scope="project")
    plugin = Plugin(request.name, _compose_server(options, environment, shared))
    files = render_plugin(plugin, request.plugin)
    may_replace = request.is_confirmed
    write_plugin(request.folder, request.plugin, files, may_replace=may_replace)
    written = [str(request.folder / name) for name in sorted(files)]
    commands = [*list_install_commands(request.plugin, request.name, request.folder)]
    if request.as_json:
        print_json({"files": written, "commands": commands})
        return
    for line in (*written, "To use it:", *(f"  {command}" for command in commands)):
        click.echo(line)


def find_own_program() -> tuple[str, ...]:
    """A command to start this program again, independent of PATH."""
    started = Path(sys.argv[0])
    if any(part in started.parts for part in _PASSING):
        return ("uvx", f"{DISTRIBUTION}@{__version__}")
    if started.stem in {_PROGRAM, DISTRIBUTION} and started.is_file():
        return (os.path.abspath(started),)  # noqa: PTH100 - a link stays one
    sibling = Path(sys.executable).with_name(_PROGRAM)
    found = os.fspath(sibling) if sibling.is_file() else shutil.which(_PROGRAM)
    return (found,) if found else (sys.executable, "-m", "skills_mcp")


def compose_arguments(options: Options, *, is_shared: bool) -> tuple[str, ...]:
    """Arguments for the sources of an entry.

    Args:
        options: From the command line or the environment.
        is_shared: Whether other people start the server, each in a copy of the folder.
    """
    selection = options.selection
    settings = os.fspath(options.config_file) if options.config_file else None
    switches = {
        "--discover": options.discover is True,
        "--no-discover": options.discover is False,
        "--offline": options.offline is True,
        "--online": options.offline is False,
        "--everywhere": selection.everywhere,
    }
    values = {
        "--skills-dir": _locate(options.skills_dir, is_shared=is_shared),
        "--repo": None if options.skills_dir else _locate_repository(options.repo),
        "--branch": options.branch,
        "--ref": options.pin,
        "--subfolder": selection.subfolder,
        "--plugins": ",".join(selection.plugins),
        "--config": _locate(settings, is_shared=is_shared),
    }
    typed = [word for name, value in values.items() if value for word in (name, value)]
    return (*typed, *(name for name, is_on in switches.items() if is_on))


def _compose_server(
    options: Options, environment: Mapping[str, str], request: InstallOptions
) -> Server:
    if request.url is not None:
        if urlsplit(request.url).scheme not in {"http", "https"}:
            raise click.UsageError("--http takes a URL, such as https://host/mcp.")
        return RemoteServer(request.url)
    if find_url_secret(options.repo):
        raise ConfigError(
            "The URL of the repository holds a token, which would stand in the file. "
            "Leave it out of the URL, and set GITHUB_TOKEN: the entry names that "
            "variable, never its value"
        )
    build(options, environment)  # or the host would start a server without skills
    is_shared = request.scope == "project"
    program = (_PROGRAM,) if is_shared else find_own_program()
    return StartedServer(
        (*program, *compose_arguments(options, is_shared=is_shared)),
        find_forwarded_variables(environment, is_shared=is_shared),
    )


def _locate(path: str | None, *, is_shared: bool) -> str | None:
    """An absolute path: the host may start the server in any folder."""
    if not path or is_shared:
        return path
    return os.path.abspath(Path(path).expanduser())  # noqa: PTH100 - a link stays one


def _locate_repository(repo: str | None) -> str | None:
    if repo and "://" not in repo and Path(repo).expanduser().exists():
        return _locate(repo, is_shared=False)
    return repo


def _choose_hosts(request: InstallOptions, environment: Mapping[str, str]) -> Sequence[Host]:
    if request.clients:
        return [find_host(name) for name in dict.fromkeys(request.clients)]
    found = [host for host in HOSTS if host.is_installed(environment)]
    if not found:
        names = ", ".join(host.name for host in HOSTS)
        raise HostFileError(f"No client was found on this machine. Name one with --client: {names}")
    return found


def _find_file(host: Host, scope: HostScope, environment: Mapping[str, str]) -> HostFile:
    return HostFile(host, host.find_file(scope, environment, find_project()), scope)


def _plan_removals(
    hosts: Sequence[Host], request: InstallOptions, environment: Mapping[str, str]
) -> list[HostChange]:
    files = [_find_file(host, request.scope, environment) for host in hosts]
    return [plan_removal(file, request.name) for file in files]


def _print_snippets(files: Sequence[HostFile], request: InstallOptions, server: Server) -> None:
    name = request.name
    if request.as_json:
        entries = [
            {**_render(file), "entry": render_snippet(file.host, name, server)} for file in files
        ]
        print_json({"name": name, "entries": entries})
        return
    for file in files:
        click.echo(f"{file.host.title}: add to {file.path}", err=True)
        click.echo(render_snippet(file.host, name, server), nl=file is not files[-1])


def _apply(changes: Sequence[HostChange], request: InstallOptions) -> None:
    needed = [change for change in changes if change.is_needed]
    if not request.as_json:
        _announce(changes, request)
    if needed and not request.is_confirmed:
        _ask(needed, as_json=request.as_json)
    for change in needed:
        change.apply()
        if not request.as_json:
            click.echo(" ".join(_describe(change, request)))
    if request.as_json:
        print_json({"name": request.name, "changes": [*map(_render_change, changes)]})
    elif needed and not request.is_removed:
        click.echo("To see whether it works: skills-mcp doctor")


def _announce(changes: Sequence[HostChange], request: InstallOptions) -> None:
    """Print the unchanged files, then the changes in the others."""
    for change in changes:
        if not change.is_needed:
            state = "has no entry" if request.is_removed else "has the entry already"
            click.echo(f"{change.file.host.title}: {change.file.path} {state}.")
    for change in changes:
        if change.is_needed:
            _show(change)


def _render(file: HostFile) -> dict[str, Any]:
    return {"client": file.host.name, "file": str(file.path)}


def _render_change(change: HostChange) -> dict[str, Any]:
    return {
        **_render(change.file),
        "changed": change.is_needed,
        "deleted": change.is_needed and change.after is None,
    }


def _describe(change: HostChange, request: InstallOptions) -> Iterator[str]:
    file = change.file
    yield f"{file.host.title}:"
    if change.after is None:
        yield f"{file.path} was deleted, as nothing else was in it."
    elif request.is_removed:
        yield f"the entry {request.name} was taken out of {file.path}."
    else:
        yield f"{file.path} has the entry {request.name}."
        yield file.host.manual_steps.get(file.scope, "Restart it to load the tools.")


def _show(change: HostChange) -> None:
    for line in change.compare().splitlines():
        click.secho(line, fg=_COLOURS.get(line[:1]))


def _ask(changes: Sequence[HostChange], *, as_json: bool) -> None:
    if as_json:
        raise HostFileError(
            "Nothing was changed: --json does not ask. Look at the entry with --print, "
            "and call it again with --yes"
        )
    if not sys.stdin.isatty():
        raise HostFileError(
            "Nothing was changed: there is no terminal to ask at. Look at the lines "
            "above, and call it again with --yes"
        )
    noun = "this file" if len(changes) == 1 else f"these {len(changes)} files"
    if not click.confirm(f"Change {noun}?"):
        raise HostFileError("Nothing was changed")
