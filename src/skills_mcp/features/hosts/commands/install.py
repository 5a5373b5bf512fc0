"""Connect your coding agent: add this server to the file that it reads.

What changes is shown, and you are asked first. The options that say where the
skills are become part of the entry.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import click

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.bootstrap import Options, build, find_url_secret
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import content_options, json_option, read_options
from skills_mcp.cli.terminal import confirm, print_json
from skills_mcp.errors import ConfigError, HostFileError
from skills_mcp.features.hosts.host import (
    DEFAULT_NAME,
    HOSTS,
    HostName,
    HostScope,
    PluginHost,
    find_host,
    find_project,
)
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
from skills_mcp.files.paths import expand_home_folder

_PROGRAM = "skills-mcp"

# A person waits for it; a server that is asleep may take longer, and is only named.
_ADDRESS_SECONDS = 5.0

# Where uv keeps what `uvx` runs; the next start may find another folder.
_PASSING = ("archive-v0", "environments-v2")

_COLOURS = {"+": "green", "-": "red"}


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp install --repo https://github.com/acme/skills.git",
        "skills-mcp install --client claude-code --skills-dir ./skills --print",
        "skills-mcp install --client cursor --http https://skills.acme.com/mcp",
        "skills-mcp install --remove",
    ),
)
@click.option(
    "--client",
    "clients",
    type=click.Choice(get_args(HostName)),
    multiple=True,
    help="Which host; may be repeated.  [default: all that are found here]",
)
@click.option(
    "--scope",
    type=click.Choice(get_args(HostScope)),
    default="user",
    show_default=True,
    help="For you, or for everyone who works in this folder.",
)
@click.option("--print", "is_printed", is_flag=True, help="Only show what to add.")
@click.option("--remove", "is_removed", is_flag=True, help="Take the entry out again.")
@click.option("--http", "url", metavar="URL", help="Connect to a server at this URL.")
@click.option(
    "--name",
    metavar="NAME",
    default=DEFAULT_NAME,
    show_default=True,
    help="What the server is called there.",
)
@click.option(
    "--plugin",
    type=click.Choice(get_args(PluginHost)),
    help="Make a plugin of the server, a hook and a command.",
)
@click.option(
    "--to",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the plugin.",
)
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask.")
@json_option
@content_options(log_level="error")
def command(
    *,
    clients: tuple[HostName, ...],
    scope: HostScope,
    is_printed: bool,
    is_removed: bool,
    url: str | None,
    name: str,
    plugin: PluginHost | None,
    folder: Path | None,
    is_confirmed: bool,
    as_json: bool,
    **values: Any,
) -> None:
    options, environment = read_options(**values)
    if is_removed and (is_printed or url):
        raise click.UsageError("--remove excludes --print and --http.")
    if plugin or folder:
        if plugin is None or folder is None:
            raise click.UsageError("--plugin and --to go together.")
        if clients or is_printed or is_removed:
            raise click.UsageError("--plugin excludes --client, --print and --remove.")
        # Other people install it, each on a machine of their own.
        server = _compose_server(options, environment, url, is_shared=True)
        files = render_plugin(Plugin(name, server), plugin)
        write_plugin(folder, plugin, files, may_replace=is_confirmed)
        commands = list_install_commands(plugin, name, folder)
        _print_plugin([str(folder / file) for file in sorted(files)], commands, as_json=as_json)
        return
    entries = _find_entries(clients, scope, environment)
    if is_removed:
        removals = [plan_removal(file, name) for file in entries]
        _apply(removals, name, is_removed=True, is_confirmed=is_confirmed, as_json=as_json)
        return
    server = _compose_server(options, environment, url, is_shared=scope == "project")
    if is_printed:
        _print_snippets(entries, name, server, as_json=as_json)
    else:
        changes = [plan_installation(file, name, server) for file in entries]
        _apply(changes, name, is_removed=False, is_confirmed=is_confirmed, as_json=as_json)


def _print_plugin(files: Sequence[str], commands: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"files": files, "commands": commands})
        return
    for line in (*files, "To use it:", *(f"  {command}" for command in commands)):
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
    options: Options, environment: Mapping[str, str], url: str | None, *, is_shared: bool
) -> Server:
    if url is not None:
        if urlsplit(url).scheme not in {"http", "https"}:
            raise click.UsageError("--http takes a URL, such as https://host/mcp.")
        if not options.offline:
            _check_address(url)
        return RemoteServer(url)
    if find_url_secret(options.repo):
        raise ConfigError(
            "The URL of the repository holds a token, which would stand in the file. "
            "Leave it out of the URL, and set GITHUB_TOKEN: the entry names that "
            "variable, never its value"
        )
    build(options, environment)  # or the host would start a server without skills
    program = (_PROGRAM,) if is_shared else find_own_program()
    return StartedServer(
        (*program, *compose_arguments(options, is_shared=is_shared)),
        find_forwarded_variables(environment, is_shared=is_shared),
    )


def _check_address(url: str) -> None:
    """Refuse an address that answers, but not to clients of MCP; name an unreachable one."""
    from skills_mcp.features.hosts.client_checks import ask_url  # HTTP, for this option only

    try:
        answer = ask_url(url, _ADDRESS_SECONDS)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        click.echo(f"{url} cannot be reached from here, so it was not checked: {reason}", err=True)
        return
    if answer.is_elsewhere:
        found = f"{answer.status} {answer.reason}".strip()
        raise ConfigError(f"MCP is not served at {url}, which answers {found}")


def _locate(path: str | None, *, is_shared: bool) -> str | None:
    """An absolute path: the host may start the server in any folder."""
    if not path or is_shared:
        return path
    return os.path.abspath(expand_home_folder(path))  # noqa: PTH100 - a link stays one


def _locate_repository(repo: str | None) -> str | None:
    if repo and "://" not in repo and expand_home_folder(repo).exists():
        return _locate(repo, is_shared=False)
    return repo


def _find_entries(
    names: Sequence[HostName], scope: HostScope, environment: Mapping[str, str]
) -> Sequence[HostFile]:
    """The file of each named host; of those on this machine without a name."""
    hosts = [find_host(name) for name in dict.fromkeys(names)]
    hosts = hosts or [host for host in HOSTS if host.is_installed(environment)]
    if not hosts:
        known = ", ".join(host.name for host in HOSTS)
        raise HostFileError(f"No client was found on this machine. Name one with --client: {known}")
    project = find_project()
    return [HostFile(host, host.find_file(scope, environment, project), scope) for host in hosts]


def _print_snippets(files: Sequence[HostFile], name: str, server: Server, *, as_json: bool) -> None:
    if as_json:
        entries = [
            {**_render(file), "entry": render_snippet(file.host, name, server)} for file in files
        ]
        print_json({"name": name, "entries": entries})
        return
    for file in files:
        click.echo(f"{file.host.title}: add to {file.path}", err=True)
        click.echo(render_snippet(file.host, name, server), nl=file is not files[-1])


def _apply(
    changes: Sequence[HostChange], name: str, *, is_removed: bool, is_confirmed: bool, as_json: bool
) -> None:
    needed = [change for change in changes if change.is_needed]
    if not as_json:
        _announce(changes, is_removed=is_removed)
    if needed and not is_confirmed:
        confirm(
            "Change this file?" if len(needed) == 1 else f"Change these {len(needed)} files?",
            HostFileError,
            done="changed",
            preview="the entry with --print",
            listing="lines",
            as_json=as_json,
        )
    for change in needed:
        change.apply()
        if not as_json:
            click.echo(" ".join(_describe(change, name, is_removed=is_removed)))
    if as_json:
        print_json({"name": name, "changes": [*map(_render_change, changes)]})
    elif needed and not is_removed:
        click.echo("To see whether it works: skills-mcp doctor")


def _announce(changes: Sequence[HostChange], *, is_removed: bool) -> None:
    """Print the unchanged files, then the changes in the others."""
    for change in changes:
        if not change.is_needed:
            state = "has no entry" if is_removed else "has the entry already"
            click.echo(f"{change.file.host.title}: {change.file.path} {state}.")
    for change in changes:
        for line in change.compare().splitlines() if change.is_needed else ():
            click.secho(line, fg=_COLOURS.get(line[:1]))


def _render(file: HostFile) -> dict[str, Any]:
    return {"client": file.host.name, "file": str(file.path)}


def _render_change(change: HostChange) -> dict[str, Any]:
    return {
        **_render(change.file),
        "changed": change.is_needed,
        "deleted": change.is_needed and change.after is None,
    }


def _describe(change: HostChange, name: str, *, is_removed: bool) -> Iterator[str]:
    file = change.file
    yield f"{file.host.title}:"
    if change.after is None:
        yield f"{file.path} was deleted, as nothing else was in it."
    elif is_removed:
        yield f"the entry {name} was taken out of {file.path}."
    else:
        yield f"{file.path} has the entry {name}."
        yield file.host.manual_steps.get(file.scope, "Restart it to load the tools.")
